"""What a runtime saw: one row for each instruction that ran, for each operation in a delegate, and for each value."""

from etir.devtools.profile.from_etdump import profile_of_etdump, read_profile
from etir.devtools.profile.profile import Kind, LoggedValue, Profile, Row

__all__ = ["Kind", "LoggedValue", "Profile", "Row", "profile_of_etdump", "read_profile"]
