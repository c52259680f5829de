// What passes rewrote and left alone, chosen by a regular expression for PASS:PATTERN.
// RUN: et-opt -p 'apply-pdl{file=%S/inputs/silu.pdl.mlir}' --remarks-filter=silu --no-output %s 2>&1 | filecheck %s --check-prefixes=PASSED,MISSED
// RUN: et-opt -p 'apply-pdl{file=%S/inputs/silu.pdl.mlir}' --remarks-filter --no-output %s 2>&1 | filecheck %s --check-prefixes=PASSED,MISSED
// RUN: et-opt -p 'apply-pdl{file=%S/inputs/silu.pdl.mlir}' --remarks-filter-missed='^apply-pdl:s' --no-output %s 2>&1 | filecheck %s --check-prefix=ALONE
// RUN: et-opt -p 'apply-pdl{file=%S/inputs/silu.pdl.mlir}' --remarks-filter-passed=gelu --no-output %s 2>&1 | filecheck %s --check-prefix=NONE --allow-empty
// RUN: et-opt -p 'apply-pdl{file=%S/inputs/silu.pdl.mlir}' --remarks-filter-passed=silu --remark-format=yaml --remarks-output-file=%t.yaml --no-output %s
// RUN: filecheck %s --check-prefix=YAML < %t.yaml
// RUN: et-opt -p 'apply-pdl{file=%S/inputs/silu.pdl.mlir}' --remarks-filter-passed=silu --remarks-format=json --no-output %s 2>&1 | filecheck %s --check-prefix=JSON
// RUN: not et-opt -p cse --remarks-filter='(' %s 2>&1 | filecheck %s --check-prefix=REGEX
// RUN: not et-opt -p cse --remarks-output-file=%t.none %s 2>&1 | filecheck %s --check-prefix=FILTER

// PASSED: remarks.mlir:{{[0-9]+}}:3: remark: [passed] apply-pdl:silu: 'silu' rewrote 'aten.mul.Tensor'
// MISSED: remarks.mlir:{{.*}}: remark: [missed] apply-pdl:silu: 'silu' left 'aten.mul.Tensor' alone: a block argument
// ALONE-NOT: [passed]
// ALONE: remark: [missed] apply-pdl:silu:
// NONE-NOT: remark
// YAML: --- !Passed
// YAML-NEXT: Pass:            "apply-pdl"
// YAML-NEXT: Name:            "silu"
// YAML-NEXT: DebugLoc:        { File: "{{.*}}remarks.mlir", Line: {{[0-9]+}}, Column: 3 }
// YAML: ...
// JSON: {"kind": "passed", "pass_name": "apply-pdl", "name": "silu", "operation": "aten.mul.Tensor"
// REGEX: the filter of remarks '(' is no regular expression
// FILTER: --remarks-output-file needs a filter
func.func @forward(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = aten.sigmoid.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.mul.Tensor(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = aten.mul.Tensor(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %1, %2 : tensor<4xf32>, tensor<4xf32>
}
