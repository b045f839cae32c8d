"""Events of the Java virtual machine itself."""

from unperturbed.instrument.events.kind import EventKind


class JvmEvent(EventKind):
    """Kind that counts an event of the Java virtual machine."""

    name = "jvm_event"
    keys = ("jvm", "event")
    meaning = (
        "events of the Java virtual machine: collections (pauses for garbage collection), compilations (methods that "
        "its compilers finished) or classes (loaded and prepared)"
    )
    example = "collections"
    pattern = "collections|compilations|classes"
    form = "collections, compilations or classes"
    means = "jvm"
    order = 14

    @classmethod
    def hint(cls, target: str) -> str:
        """Return advice if the target is a method's name; '' for other targets."""
        return " (count a method with `enter`)" if "." in target else ""
