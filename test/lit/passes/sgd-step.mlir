// RUN: et-opt -p 'sgd-step{lr=0.5}' --split-input-file %s | filecheck %s
// RUN: et-opt -p 'sgd-step{momentum=0.9 dampening=0.1 weight-decay=0.01}' --split-input-file %s | filecheck %s --check-prefix=ALL

// The parameter is stored, gradients and parameters are no outputs any more, nor is a training module told of them.
// Without a learning rate the method takes it as its last input. Momenta start as zeros, and with dampening there is a
// factor that the first step changes.

// CHECK: et.state @w : tensor<2xf32>
et.state @w : tensor<2xf32> = #et.synthetic<seed = 1> {fqn = "net.w", kind = "parameter"}
// ALL: et.state @forward.factor : tensor<f32>
// ALL: et.state @w.momentum : tensor<2xf32> = #et.blob<{{.*}}, 8> {fqn = "net.w.momentum", kind = "buffer"}

// CHECK-LABEL: func.func @forward(%x: tensor<2xf32>) -> tensor<f32>
// ALL-LABEL: func.func @forward(%x: tensor<2xf32>, %lr: tensor<f32>) -> tensor<f32>
func.func @forward(%x: tensor<2xf32>) -> (tensor<f32>, tensor<2xf32>, tensor<2xf32>) attributes {et.input_names = ["x"], et.output_names = ["loss", "g", "net.w"], et.training = {gradients = 1 : i64, parameters = 2 : i64, states = {net.w = "w"}}} {
  // CHECK: et.read_state @w
  // ALL: %0 = et.read_state @w.momentum
  // ALL: %1 = et.read_state @forward.factor
  %w = et.read_state @w : tensor<2xf32>
  %g = aten.mul.Tensor(%x, %w) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %loss = aten.sum.default(%g) : (tensor<2xf32>) -> tensor<f32>
  // CHECK: %[[NEW:.*]] = aten.add.Tensor(%w, %g, alpha = -0.5)
  // CHECK-NEXT: et.write_state @w, %[[NEW]]
  // CHECK-NEXT: func.return %loss : tensor<f32>
  // ALL: %[[LATER:.*]] = et.constant dense<{{.*}}> : tensor<f32>
  // ALL-NEXT: et.write_state @forward.factor, %[[LATER]]
  // ALL-NEXT: %[[DECAYED:.*]] = aten.add.Tensor(%g, %w, alpha = 0.01)
  // ALL-NEXT: %[[DAMPENED:.*]] = aten.mul.Tensor(%[[DECAYED]], %1)
  // ALL-NEXT: %[[KEPT:.*]] = aten.mul.Scalar(%0, other = 0.9)
  // ALL-NEXT: %[[MOMENTUM:.*]] = aten.add.Tensor(%[[KEPT]], %[[DAMPENED]]
  // ALL-NEXT: et.write_state @w.momentum, %[[MOMENTUM]]
  // ALL-NEXT: %[[STEP:.*]] = aten.mul.Tensor(%[[MOMENTUM]], %lr)
  // ALL-NEXT: %[[NEW:.*]] = aten.sub.Tensor(%w, %[[STEP]])
  // ALL-NEXT: et.write_state @w, %[[NEW]]
  // ALL-NEXT: func.return %loss : tensor<f32>
  func.return %loss, %g, %w : tensor<f32>, tensor<2xf32>, tensor<2xf32>
}
// CHECK-NOT: __et_training
func.func @__et_training_gradients_index_forward() -> i64 {
  %0 = sym.constant 1 : i64
  func.return %0 : i64
}
