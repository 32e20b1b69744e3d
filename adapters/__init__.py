"""Tasks and benchmark formats: what turns a record into queries and hits into a task's output."""
