"""Registry: objects by name, each imported at its first use; and objects from outside the package by their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from blocksvm.base.errors import InputError, one_of, option
from blocksvm.base.user_code import by_user, check_followed, imported, object_at, place_of


@dataclass(frozen=True)
class Registry(Mapping[str, str]):
    """The names of one kind of object, and the places of these, 'module:attribute'.

    kind: what they are, and the setting by which a user names one, such as 'loss'; classes: the places of the classes
    of which an object from outside the package must be one; more: further names that a sentence on
    an unknown one lists first.
    """

    kind: str
    classes: tuple[str, ...]
    places: Mapping[str, str]
    more: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> str:
        return self.places[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def check(self, name: str, kind: str | None = None) -> str:
        """The name, if it is one of these or can be a place; InputError, of this kind or of another that the user
        named, where it is neither, or where only a file names the place."""
        kind = kind or self.kind
        if name not in self.places:
            if not all(name.partition(":")):
                names = one_of(name, (*self.more, *self.places), ", or name your own as MODULE:ATTRIBUTE")
                raise InputError(f"{option(kind, name)}: no such {kind}; {names}")
            check_followed(name, kind)
        return name

    def name_of(self, value) -> str:
        """The name that the user gives, or of an object its name here or its place; InputError for other values."""
        if isinstance(value, str):
            return value
        if not isinstance(value, tuple(map(object_at, self.classes))):
            owner = self.classes[0].rpartition(":")[2]
            raise InputError(f"{option(self.kind, value)}: is no {self.kind}; give its name, or a {owner}")
        name = getattr(value, "name", "")
        if name in self.places and self.load(name) is value:
            return name
        place = place_of(value, self.kind)
        by_user({self.kind: place})
        return place

    def load(self, name: str, kind: str | None = None):
        """The object of this name or place; InputError where there is none."""
        kind = kind or self.kind
        self.check(name, kind)
        if name in self.places:
            return object_at(self.places[name])
        try:
            loaded = imported(name, kind)
        except ImportError as error:
            raise InputError(f"{option(kind, name)}: cannot be imported ({error})") from None
        if not isinstance(loaded, tuple(map(object_at, self.classes))):
            owners = " or ".join(place.replace(":", ".") for place in self.classes)
            raise InputError(f"{option(kind, name)}: is no {kind}; it must be a {owners}")
        return loaded
