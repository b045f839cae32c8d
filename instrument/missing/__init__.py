"""Why a software metric counts nothing, and which names could have been meant."""
