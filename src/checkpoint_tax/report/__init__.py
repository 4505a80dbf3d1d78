"""How results are shown: charts and tables for reading. Only here Altair and pandas styling."""
