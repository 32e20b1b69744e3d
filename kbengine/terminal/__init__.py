"""The command line's own room: commands of the engine, console output, the demo, the doctor."""
