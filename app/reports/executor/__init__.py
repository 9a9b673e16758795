"""Supervised execution of reassignment plans: made, approved, started, watched, verified and cleaned up.

`plan` has the values, `machine` the rules (pure), `plan_store` the SQL, `driver` the loop that carries steps out.
"""
