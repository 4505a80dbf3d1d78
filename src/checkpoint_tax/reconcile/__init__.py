"""Repair of states whose shards were captured at different steps, and what each repair costs.

A drain that copies a training state while training goes on leaves a torn one: shard i as it was
at version v_i. With the gradients of the steps between, and every number those steps used, all
shards can be brought to one version: forwards by doing the steps again, backwards by undoing them.

Nothing here imports the closed forms or the simulator, and nothing is imported before it is asked
for: the modules on plain arrays need NumPy alone.

Modules
-------
updates, optimizers
    What is shipped for a step; the steps, their inverses, and the set of states each can have
    started from.
window
    Captured shards, targets, and the way there.
gate
    How far a rollback can be trusted, and when it is refused.
traffic
    What each target ships, and how old its result is.
optimizer_table
    Which optimizers can be replayed and undone, with what error, and why others cannot.
experiments
    The first post's trials on synthetic gradients.
errors
    The reasons for a refusal, by name.
"""
