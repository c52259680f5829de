// RUN: et-opt -p 'adam-step{lr=0.5 beta1=0.5 beta2=0 weight-decay=0.25}' %s | filecheck %s

// Moments are states like their parameters, the number of the step is one of the method. Without a correction of the
// second moment nothing is computed for it.

// CHECK: et.state @w : tensor<2xf32>
et.state @w : tensor<2xf32> = #et.synthetic<seed = 1> {fqn = "net.w", kind = "parameter"}
// CHECK-NEXT: et.state @forward.step : tensor<f32>
// CHECK-NEXT: et.state @w.exp_avg : tensor<2xf32> = #et.blob<{{.*}}, 8> {fqn = "net.w.exp_avg", kind = "buffer"}
// CHECK-NEXT: et.state @w.exp_avg_sq : tensor<2xf32>

// CHECK-LABEL: func.func @forward(%x: tensor<2xf32>) -> tensor<f32>
func.func @forward(%x: tensor<2xf32>) -> (tensor<f32>, tensor<2xf32>, tensor<2xf32>) attributes {et.input_names = ["x"], et.output_names = ["loss", "g", "net.w"], et.training = {gradients = 1 : i64, parameters = 2 : i64, states = {net.w = "w"}}} {
  // CHECK-NEXT: %[[V:.*]] = et.read_state @w.exp_avg_sq
  // CHECK-NEXT: %[[M:.*]] = et.read_state @w.exp_avg
  // CHECK-NEXT: %[[N:.*]] = et.read_state @forward.step
  %w = et.read_state @w : tensor<2xf32>
  %g = aten.mul.Tensor(%x, %w) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  // CHECK: %loss =
  %loss = aten.sum.default(%g) : (tensor<2xf32>) -> tensor<f32>
  // CHECK-NEXT: %[[STEP:.*]] = aten.add.Scalar(%[[N]], other = 1)
  // CHECK-NEXT: et.write_state @forward.step, %[[STEP]]
  // CHECK-NEXT: %[[LOG:.*]] = aten.mul.Scalar(%[[STEP]], other = -0.69314{{.*}})
  // CHECK-NEXT: %[[ONE:.*]] = aten.expm1.default(%[[LOG]])
  // CHECK-NEXT: %[[INVERSE:.*]] = aten.reciprocal.default(%[[ONE]])
  // CHECK-NEXT: %[[SCALE:.*]] = aten.mul.Scalar(%[[INVERSE]], other = 0.5)
  // CHECK-NEXT: %[[G:.*]] = aten.add.Tensor(%g, %w, alpha = 0.25)
  // CHECK-NEXT: %[[KEPT:.*]] = aten.mul.Scalar(%[[M]], other = 0.5)
  // CHECK-NEXT: %[[FIRST:.*]] = aten.add.Tensor(%[[KEPT]], %[[G]], alpha = 0.5)
  // CHECK-NEXT: et.write_state @w.exp_avg, %[[FIRST]]
  // CHECK: et.write_state @w.exp_avg_sq, %[[SECOND:.*]] :
  // CHECK-NEXT: %[[ROOT:.*]] = aten.sqrt.default(%[[SECOND]])
  // CHECK-NEXT: %[[SAFE:.*]] = aten.add.Scalar(%[[ROOT]], other = 1.0e-08)
  // CHECK-NEXT: %[[DIRECTION:.*]] = aten.div.Tensor(%[[FIRST]], %[[SAFE]])
  // CHECK-NEXT: %[[CHANGE:.*]] = aten.mul.Tensor(%[[DIRECTION]], %[[SCALE]])
  // CHECK-NEXT: %[[NEW:.*]] = aten.add.Tensor(%w, %[[CHANGE]])
  // CHECK-NEXT: et.write_state @w, %[[NEW]]
  // CHECK-NEXT: func.return %loss : tensor<f32>
  func.return %loss, %g, %w : tensor<f32>, tensor<2xf32>, tensor<2xf32>
}
