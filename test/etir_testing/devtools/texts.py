"""Long texts for tests of what editors need."""


def chain(count: int, *, locations: bool = False) -> str:
    """A function with so many operations, one after the other."""
    lines = ["func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {"]
    before = "x"
    for index in range(count):
        at = f' loc("block.{index // 50}"("model.py":{10 + index % 40}:0))' if locations else ""
        lines.append(f"  %v{index} = aten.relu.default(%{before}) : (tensor<4xf32>) -> tensor<4xf32>{at}")
        before = f"v{index}"
    return "\n".join([*lines, f"  func.return %{before} : tensor<4xf32>", "}", ""])
