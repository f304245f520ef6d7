"""What a person can put right: the input of a plan is wrong."""


class InputError(Exception):
    """A stack file, project file or policy config that cannot be used.

    The text is complete for the reader: file and line where known, the field, the rule, the value, how to mend it.
    The command line prints it alone and exits with status 2.
    """
