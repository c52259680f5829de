"""Error ids of the delegate ``native``, beside those of :mod:`etir.backends.errors`."""

from etir.diagnostics import define

E1160 = define(
    "E1160",
    "an unknown processor",
    "name one of those that the message lists, or describe the processor in a file of targets/cpus",
)
E1161 = define(
    "E1161",
    "there is no compiler for generated code",
    "install one with `pip install 'etir[native]'`, or put clang or gcc on the path, or name one: native{cc=PATH}",
)
E1162 = define(
    "E1162",
    "the compiler cannot make generated code",
    "the message has what it printed; native{cc=...} takes another one",
)
E1163 = define(
    "E1163",
    "the linked image is not position independent code alone",
    "native{cc=...} takes another compiler; generated code has no data of its own and calls nothing",
)
E1164 = define(
    "E1164",
    "a schedule is not legal",
    "the message says what the processor can do; remove the schedule to have one chosen",
)
E1165 = define(
    "E1165",
    "a function of the level native is not what its lowering can take",
    "run native-group on the function as it is outlined, or correct the text",
)
E1166 = define(
    "E1166",
    "an access outside of the memory that it is to",
    "the message has the floats that are there; correct the type, the offset or the strides, or lower again",
)
E1167 = define(
    "E1167",
    "places in the arena that cannot be",
    "remove `at` of every buffer and run tile-plan again",
)
E1168 = define(
    "E1168",
    "memory is read before it is written, or written while it is read",
    "the message says which; correct the offsets or the order, or lower the function again",
)
E1169 = define(
    "E1169",
    "an operation of the level tile that no code is made of",
    "the message says what code is made of; correct the text, or lower the function again",
)
E1170 = define(
    "E1170",
    "code for the processor is not made in this way",
    "a microcontroller's code is C that its build links: et-compile --native-c DIR with one processor, "
    "native{cpus=cortex-m55}; code that is loaded is for the processors that the message lists",
)
E1171 = define(
    "E1171",
    "there is no C to write",
    "the report says why the delegate leaves operators to the kernels: et-compile --report without --native-c; "
    "it takes float32 whose dims are known or have upper bounds",
)
E1172 = define(
    "E1172",
    "no schedules can be read or kept there",
    "native{tune=FILE} takes a file that it has written, or a name in a folder that exists; tune=host keeps none; "
    "without a schedule in it, an operation is measured",
)
E1173 = define(
    "E1173",
    "code that is linked elsewhere cannot be interpreted",
    "interpret the module before lower-delegates, or a file that is compiled without linked=true; firmware with the "
    "linked code runs it",
)
E1174 = define(
    "E1174",
    "sizes that no code is made for",
    "let a dim of an input be the size, or a number times the size plus a number; or export the dim with one value",
)
