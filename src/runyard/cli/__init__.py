"""The command line. One file per group of commands, loaded when one of them is called."""
