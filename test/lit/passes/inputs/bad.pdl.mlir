pdl.pattern @unknown : benefit(1) {
  %x = pdl.operand
  %r = pdl.operation "aten.rellu.default" (%x : !pdl.value)
  pdl.rewrite %r with "some_function"
}

pdl.pattern @native : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %r = pdl.operation "aten.relu.default" (%x : !pdl.value) -> (%t : !pdl.type)
  pdl.apply_native_constraint "is_small" (%t : !pdl.type)
  pdl.rewrite %r {
    pdl.replace %r with (%x : !pdl.value)
  }
}
