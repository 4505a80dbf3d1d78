"""Repair of states whose shards were captured at different steps, and what each repair costs."""
