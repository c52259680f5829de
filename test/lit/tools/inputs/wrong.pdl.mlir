// The replacement lacks an argument.
pdl.pattern @wrong : benefit(1) {
  %x = pdl.operand
  %r = pdl.operation "aten.relu.default" (%x : !pdl.value)
  pdl.rewrite %r {
    %s = pdl.operation "aten.softmax.int" (%x : !pdl.value)
    pdl.replace %r with %s
  }
}
