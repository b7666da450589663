"""Why a rejected kernel is wrong and where: the cause, the line, the smallest case."""
