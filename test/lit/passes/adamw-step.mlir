// RUN: et-opt -p 'adamw-step{beta1=0.5 amsgrad=true weight-decay=0.25}' %s | filecheck %s

// As adam-step, but weight decay is no part of the gradient: the parameter itself is shrunk, by the learning rate that the
// method is given. amsgrad keeps the largest second moment.

et.state @w : tensor<2xf32> = #et.synthetic<seed = 1> {fqn = "net.w", kind = "parameter"}
// CHECK: et.state @w.max_exp_avg_sq : tensor<2xf32>

// CHECK-LABEL: func.func @forward(%x: tensor<2xf32>, %lr: tensor<f32>) -> tensor<f32>
func.func @forward(%x: tensor<2xf32>) -> (tensor<f32>, tensor<2xf32>, tensor<2xf32>) attributes {et.input_names = ["x"], et.output_names = ["loss", "g", "net.w"], et.training = {gradients = 1 : i64, parameters = 2 : i64, states = {net.w = "w"}}} {
  %w = et.read_state @w : tensor<2xf32>
  %g = aten.mul.Tensor(%x, %w) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  // CHECK: %loss =
  %loss = aten.sum.default(%g) : (tensor<2xf32>) -> tensor<f32>
  // CHECK: %[[SCALE:.*]] = aten.div.Tensor(%lr, %{{.*}})
  // CHECK: %[[FACTOR:.*]] = aten.add.Tensor(%{{.*}}, %lr, alpha = -0.25)
  // CHECK-NEXT: %[[SHRUNK:.*]] = aten.mul.Tensor(%w, %[[FACTOR]])
  // CHECK: %[[LARGEST:.*]] = aten.maximum.default
  // CHECK-NEXT: et.write_state @w.max_exp_avg_sq, %[[LARGEST]]
  // CHECK-NEXT: aten.sqrt.default(%[[LARGEST]])
  // CHECK: %[[CHANGE:.*]] = aten.mul.Tensor(%{{.*}}, %[[SCALE]])
  // CHECK-NEXT: %[[NEW:.*]] = aten.add.Tensor(%[[SHRUNK]], %[[CHANGE]])
  // CHECK-NEXT: et.write_state @w, %[[NEW]]
  // CHECK-NEXT: func.return %loss : tensor<f32>
  func.return %loss, %g, %w : tensor<f32>, tensor<2xf32>, tensor<2xf32>
}
