// Complex tensors: real ones with one more axis at the end, for the real and the imaginary part. So is
// torch.view_as_real() nothing at all.
#pragma once

#include "import/aten.h"

namespace swoop {

struct Complex {
  ValueId re = kNone;
  ValueId im = kNone;  // kNone: all zeros
};

bool is_complex(const ArgValue& value);  // or a list that holds complex tensors

Complex complex_arg(Call& c, size_t index);  // real tensors and numbers count too
ValueId joined(Call& c, Complex value);      // [..., 2]

// The rows for complex operands or results. Where the operator has a row for real ones too, its schema stands there. A
// row without a builder: what the operator does, it does to each part.
std::span<const Row> complex_rows();
std::span<const Row> fourier_rows();

// What `row` computes of the real parts and of the imaginary parts.
Results by_parts(Call& c, const Row& row);
// The same for a product of two complex tensors.
Results by_products(Call& c, const Row& row);

}  // namespace swoop
