"""Registry: objects by name, each imported at its first use; and objects from outside the package by their location."""

from collections.abc import Mapping

from blocksvm.base.errors import InputError, one_of, option
from blocksvm.base.user_code import by_user, imported, location_of, object_at, require_named


class Registry(dict[str, str]):
    """The names of one kind of object, and the locations of these, 'module:attribute'.

    kind: what they are, and the setting by which a user names one, such as 'loss'; classes: the locations of the
    classes of which an object from outside the package must be one; more: further names that a sentence on an unknown
    one lists first.
    """

    def __init__(self, kind: str, classes: tuple[str, ...], locations: Mapping[str, str], more: tuple[str, ...] = ()):
        super().__init__(locations)
        self.kind, self.classes, self.more = kind, classes, more

    def check(self, name: str, kind: str | None = None) -> str:
        """The name, if it is one of these or can be a location; InputError, of this kind or of another that the user
        named, where it is neither, or where only a file names the location."""
        kind = kind or self.kind
        if name not in self:
            if not all(name.partition(":")):
                names = one_of(name, (*self.more, *self), ", or name your own as MODULE:ATTRIBUTE")
                raise InputError(f"{option(kind, name)}: no such {kind}; {names}")
            require_named(name, kind, of_file=True)
        return name

    def name_of(self, value) -> str:
        """The name that the user gives, or of an object its name here or its location; InputError for other values."""
        if isinstance(value, str):
            return value
        if not isinstance(value, tuple(map(object_at, self.classes))):
            owner = self.classes[0].rpartition(":")[2]
            raise InputError(f"{option(self.kind, value)}: is not a {self.kind}; give its name, or a {owner}")
        name = getattr(value, "name", "")
        if name in self and self.load(name) is value:
            return name
        location = location_of(value, self.kind)
        by_user({self.kind: location})
        return location

    def load(self, name: str, kind: str | None = None):
        """The object of this name or location; InputError where there is none."""
        kind = kind or self.kind
        self.check(name, kind)
        if name in self:
            return object_at(self[name])
        try:
            loaded = imported(name, kind)
        except ImportError as error:
            raise InputError(f"{option(kind, name)}: cannot be imported ({error})") from None
        if not isinstance(loaded, tuple(map(object_at, self.classes))):
            owners = " or ".join(location.replace(":", ".") for location in self.classes)
            raise InputError(f"{option(kind, name)}: is not a {kind}; it must be a {owners}")
        return loaded
