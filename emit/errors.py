"""Error ids of reading and writing ``.pte`` and ``.ptd`` files: E08xx.

E0801 to E0819 are about bytes (what the file says cannot be decoded), E0820 to E0844 about meaning (the program that
the bytes describe breaks a rule of the runtime; the writer checks the same rules), E0850 and up about ``.ptd`` files.
"""

from etir.diagnostics import define

_DAMAGED = "The file is damaged or was cut short: export or download it again, and compare its size with the original."
_REPORT = (
    "The file was not written by a conforming FlatBuffers writer, or is damaged: export it again; if a fresh export "
    "still fails, the byte offset in the message says where to look with a hex dump."
)

E0801 = define("E0801", "file is too short", _DAMAGED)
E0802 = define(
    "E0802",
    "file has the wrong identifier",
    "Check that this is the kind of file the message expects; a bundled program (.bpte) has to be unpacked first.",
)
E0803 = define("E0803", "file header is inconsistent", _DAMAGED)
E0804 = define("E0804", "offset points outside of the FlatBuffer", _REPORT)
E0805 = define("E0805", "malformed table", _REPORT)
E0806 = define("E0806", "vector does not fit into the FlatBuffer", _REPORT)
E0807 = define("E0807", "malformed string", _REPORT)
E0808 = define(
    "E0808",
    "unknown union tag",
    "The file uses a kind of value or instruction that ExecuTorch 1.5.1 does not have: export it with that version.",
)
E0809 = define(
    "E0809",
    "unknown enumeration value",
    "The file uses a constant that ExecuTorch 1.5.1 does not have: export it with that version.",
)
E0810 = define("E0810", "required field is missing", _REPORT)
E0811 = define("E0811", "misaligned data", _REPORT)
E0812 = define("E0812", "segment lies outside of the file", _DAMAGED)
E0813 = define(
    "E0813",
    "objects of the FlatBuffer overlap",
    "A conforming writer never makes such a file; do not load it from a source that you do not trust.",
)
E0814 = define(
    "E0814",
    "unsupported schema version",
    "Export the program with ExecuTorch 1.5.1, whose schema version is 0.",
)
E0815 = define(
    "E0815",
    "unsupported combination of data stores",
    "Export the program again with ExecuTorch 1.5.1, which keeps all constants in one segment.",
)

E0820 = define("E0820", "value index out of range", "Refer to an entry of the method's value table.")
E0821 = define("E0821", "operator index out of range", "Add the operator to the method's operator table first.")
E0822 = define("E0822", "delegate index out of range", "Add the delegate to the method's delegate table first.")
E0823 = define(
    "E0823",
    "jump target out of range",
    "Jump to an instruction of the same chain, or to the number of instructions to leave the chain.",
)
E0824 = define(
    "E0824",
    "list element has the wrong kind",
    "An int list refers to Int values; a tensor list to Tensor values that come before the list itself.",
)
E0825 = define(
    "E0825",
    "tensor has an impossible shape",
    "Sizes are 0 to 2147483647, at most 16 of them, fewer than 2^63 bytes in all; the dim order is a permutation.",
)
E0826 = define(
    "E0826",
    "planned tensor lies outside of its memory",
    "Run memory planning again, or raise the size of the memory in non_const_buffer_sizes.",
)
E0827 = define(
    "E0827",
    "tensor data is missing or too small",
    "Let data_buffer_idx refer to an entry of the constants (or of the mutable data, for a planned tensor) that "
    "holds all bytes of the tensor; entry 0 is reserved and empty.",
)
E0828 = define(
    "E0828",
    "name is empty or too long",
    "The runtime looks names up in a 100-byte buffer: use a name (with its overload) of 1 to 99 bytes without NUL.",
)
E0829 = define(
    "E0829",
    "instruction operand has the wrong kind",
    "A jump condition is a Bool value or a bool tensor; only tensors can be freed.",
)
E0830 = define("E0830", "number does not fit its field", "Use a number in the range that the message names.")
E0831 = define("E0831", "name is defined twice", "Give every method, and every named blob, its own name.")
E0832 = define(
    "E0832",
    "tensor needs what the runtime does not have",
    "Use tensors without storage offset; a tensor whose dims have no upper bound (DYNAMIC_UNBOUND) has no place of its "
    "own and no data: etir's runtime allocates it, the stock runtime does not load it.",
)
E0833 = define(
    "E0833",
    "external tensor has no name",
    "Give the tensor the fully qualified name under which its data is stored.",
)
E0834 = define(
    "E0834",
    "method is incomplete",
    "A method has at least one chain, and its table of memory sizes starts with the reserved entry 0.",
)
E0835 = define("E0835", "text cannot be encoded as UTF-8", "Remove the lone surrogate characters.")
E0836 = define("E0836", "alignment is not usable", "Use a power of two from 1 to 1048576.")
E0837 = define(
    "E0837",
    "method input has an unsupported kind",
    "Method inputs are tensors, ints, bools, floats, strings or None; pass the members of a list one by one.",
)
E0838 = define(
    "E0838",
    "program is too large for a FlatBuffer",
    "Offsets in a FlatBuffer have 31 bits: store delegate data in segments instead of inline.",
)
E0839 = define(
    "E0839",
    "stack trace does not match the instructions",
    "Give one frame list per instruction, or no stack trace at all.",
)
E0840 = define(
    "E0840",
    "event of a profile is malformed",
    "Record the profile again; a file that the runtime wrote and this refuses is worth a report.",
)
E0841 = define(
    "E0841",
    "profile of a newer version",
    "Read it with the version of etir, or of ExecuTorch's Inspector, that belongs to the runtime that wrote it.",
)
E0842 = define(
    "E0842",
    "value lies outside of the buffer of values",
    "Pass the buffer that was written with this profile, whole; where it was too small, record with a larger one.",
)
E0843 = define(
    "E0843",
    "records do not belong to this program",
    "Pass the program, and the method, that the device ran, and all bytes that it sent.",
)
E0844 = define(
    "E0844",
    "bundled program is malformed",
    "Write it again with et-translate --bundle from the program and its inputs.",
)

E0850 = define(
    "E0850",
    "named tensor does not match its data",
    "The layout's dtype and sizes must describe exactly the bytes stored under the name.",
)

E0861 = define(
    "E0861",
    "the module is not ready to be written",
    "Run the whole pipeline first (et-compile, or et-opt --compile-to=et): executable methods with a plan.",
)
E0862 = define(
    "E0862",
    "a delegate has no payload",
    "Lower the delegate with its backend first; et.delegate holds the payload that et.delegate_call names.",
)
E0863 = define(
    "E0863",
    "external weights are missing",
    "Pass the .ptd file that was written beside the program: --data=FILE.ptd.",
)
E0864 = define(
    "E0864",
    "a list is used as a value",
    "The executable level keeps lists inside calls; return the elements of the list instead of the list.",
)
E0865 = define(
    "E0865",
    "the file does not say what the module says",
    "This is a bug in the writer: nothing was written. Report it with the module's text.",
)
E0867 = define(
    "E0867",
    "two things have one name in a file of external data",
    "Keep one of them inside: externalize-weights{match=...} names what goes out.",
)
E0868 = define(
    "E0868",
    "the name of a file of external data cannot be used",
    "name the file that is written beside the program, without its folder: 'weights' is weights.ptd.",
)
E0866 = define(
    "E0866",
    "the debug information belongs to another program",
    "Pass what was written with the program: et-compile --debug-file, or its text at the executable level.",
)
