// The command line: a backend and its options, the report, what-if, the fallback, and the blobs read back.
//
// RUN: et-compile %s -o %t.pte --target etir --delegate reference --delegate-option leave=aten.erfinv.default --what-if | filecheck %s
// RUN: et-translate --disassemble %t.pte | filecheck %s --check-prefix=BLOB
// RUN: et-compile %s -o %t.pte --target etir --delegate reference --report=json | filecheck %s --check-prefix=JSON
// RUN: not et-compile %s -o %t.pte --target etir --delegate reference --delegate-option leave=aten.erfinv.default --fallback refuse 2>&1 | filecheck %s --check-prefix=REFUSE
// RUN: et-compile %s -o %t.pte --target etir --delegate reference --delegate-option only=aten.cos.default 2>&1 | filecheck %s --check-prefix=NOTHING
// RUN: not et-compile %s -o %t.pte --target executorch --delegate reference 2>&1 | filecheck %s --check-prefix=MISSING
// RUN: not et-compile %s -o %t.pte --delegate refrence 2>&1 | filecheck %s --check-prefix=UNKNOWN

// CHECK: reference runs 2 of 3 operators in 2 delegates; the target's kernels run 1
// CHECK: delegate reference{leave=aten.erfinv.default}: 2 operators, 2 partitions, 64 bytes at their boundaries
// CHECK-NEXT: forward_reference_0: 1 operators, 1 inputs (16 bytes), 1 outputs (16 bytes), 0 bytes of constants
// CHECK: claims     1 x aten.relu.default
// CHECK: rejects    1 x aten.erfinv.default: rejected by option 'leave' ({{.*}}delegates.mlir:30:3)
// CHECK-NEXT: with aten.erfinv.default (1): 2 -> 1 partitions, save 32 bytes at their boundaries

// BLOB: // method forward, delegate 0: EtirReferenceBackend,
// BLOB: et.call "aten::relu.out"
// BLOB: // method forward, delegate 1: EtirReferenceBackend,
// BLOB: et.call "aten::abs.out"

func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = edge.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // JSON: "what_if": []
  // REFUSE: error[E1104]: no delegate claims 'aten.erfinv.default', and no fallback is allowed
  // NOTHING: warning[E1104]: 'reference' claims none of 3 operators; reference runs 0 of 3 operators in 0 delegates; the target's kernels run 3
  // MISSING: error[E1102]: 'backend.call_delegate': executorch 1.5.1 has no backend 'EtirReferenceBackend' (it has OpenvinoBackend, QnnBackend, XnnpackBackend)
  // UNKNOWN: error[E1101]: no backend named 'refrence' is installed; did you mean 'reference'?
  %1 = edge.aten.erfinv.default(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = edge.aten.abs.default(%1) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}
