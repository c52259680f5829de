"""Error ids of delegation."""

from etir.diagnostics import define

E1101 = define(
    "E1101",
    "unknown delegate",
    "the message lists the installed backends; leave `delegates` empty to run on the target's kernels",
)
E1102 = define(
    "E1102",
    "the target's runtime does not have a backend",
    "compile for a target that has it, link the backend into the runtime and say so (--link-backend NAME), "
    "or leave the delegate out",
)
E1103 = define(
    "E1103",
    "a delegate's blob has another version",
    "compile the program again with the backend that is to run it, or install the backend that wrote the file",
)
E1104 = define(
    "E1104",
    "operators are not delegated",
    "the report says why each operator was rejected (--report); allow a fallback to run them on the target's kernels",
)
E1105 = define(
    "E1105",
    "a partition is not convex",
    "take one of the named operations out of the partition, or the operations on the path into it",
)
E1106 = define(
    "E1106",
    "a backend cannot lower what it claimed",
    "this is a bug in the backend: a condition of its table is missing; leave the operator out with "
    "partition{exclude=...} until it is fixed",
)
E1107 = define("E1107", "an option of a delegate is wrong", "the message lists the options with their types")
E1108 = define("E1108", "a delegate's blob is malformed", "the file is damaged, or the blob is of another backend")
E1109 = define(
    "E1109",
    "a partition attribute is wrong",
    'write {backend.partition = "name:number"} on operations of one block, with the name of an installed backend',
)
E1110 = define(
    "E1110",
    "an installed backend cannot be used",
    "its entry point in group etir.backends has to name an instance of etir.backends.api.interface.Backend",
)
E1113 = define(
    "E1113",
    "a delegate's arguments are not where its payload allows them",
    "compile the program again; in text, give the output a buffer of its own, and leave the compile specs 'workspace' "
    "and 'over' as they were written, since the payload was made for them",
)
E1112 = define(
    "E1112",
    "a partitioner or a backend of executorch fails",
    "the message has what it raised; leave the delegate out, or let it claim less with partition{exclude=...}",
)
E1111 = define(
    "E1111",
    "an outlined function is not usable",
    "docs/reference/dialects/backend.md says what an outlined function is made of",
)
