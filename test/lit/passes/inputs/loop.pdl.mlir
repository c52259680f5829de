pdl.pattern @there : benefit(1) {
  %x = pdl.operand
  %r = pdl.operation "aten.relu.default" (%x : !pdl.value)
  pdl.rewrite %r {
    %n = pdl.operation "aten.neg.default" (%x : !pdl.value)
    pdl.replace %r with %n
  }
}

pdl.pattern @back : benefit(1) {
  %x = pdl.operand
  %n = pdl.operation "aten.neg.default" (%x : !pdl.value)
  pdl.rewrite %n {
    %r = pdl.operation "aten.relu.default" (%x : !pdl.value)
    pdl.replace %n with %r
  }
}
