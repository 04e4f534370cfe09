"""The command line: `commands.py` lists the commands, whose modules are imported when they are used."""
