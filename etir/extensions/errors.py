"""Error ids of plug-ins: E13xx."""

from etir.diagnostics import define

E1301 = define(
    "E1301",
    "a module cannot be imported",
    "name a module that Python finds (PYTHONPATH, or an installed package) or the path of a .py file",
)
E1302 = define(
    "E1302",
    "a plug-in cannot be used",
    "its entry point in group etir.plugins has to name an etir.plugins.Plugin: update or uninstall the package that "
    "the message names, or correct what it adds",
)
E1303 = define(
    "E1303",
    "a name is registered twice",
    "rename one of the two, or say that it is meant: register the later one with replace=True",
)
