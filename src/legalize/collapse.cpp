// Transposes with reshapes between them, as one transpose or none. Sizes are taken apart into the pieces that travel
// together.
#include <algorithm>

#include "legalize/compose.h"

namespace swoop {

namespace {

constexpr size_t kLongestChain = 12;

// Pieces of the source's dims, in the source's order and in the order that some moves give them.
class Pieces {
 public:
  explicit Pieces(const Shape& shape) {
    for (int64_t size : shape) {
      dims_.push_back({});
      if (size == 1) continue;
      dims_.back().push_back(sizes_.size());
      source_.push_back(sizes_.size());
      sizes_.push_back(size);
    }
  }

  void permute(const Ints& perm) {
    std::vector<std::vector<size_t>> moved;
    for (int64_t axis : perm) moved.push_back(dims_[static_cast<size_t>(axis)]);
    dims_ = std::move(moved);
  }

  // False when a new dim would cut a piece where it cannot be cut.
  bool regroup(const Shape& shape) {
    std::vector<size_t> flat = order();
    size_t next = 0;
    dims_.clear();
    for (int64_t wanted : shape) {
      dims_.push_back({});
      while (wanted > 1) {
        if (next == flat.size()) return false;
        size_t piece = flat[next];
        if (wanted % sizes_[piece] == 0) {
          wanted /= sizes_[piece];
          ++next;
        } else if (sizes_[piece] % wanted == 0) {
          flat.insert(flat.begin() + static_cast<std::ptrdiff_t>(next) + 1, cut(piece, wanted));
          wanted = 1;
          ++next;
        } else {
          return false;
        }
        dims_.back().push_back(piece);
      }
    }
    return next == flat.size();
  }

  std::vector<size_t> order() const {
    std::vector<size_t> flat;
    for (const auto& dim : dims_) flat.insert(flat.end(), dim.begin(), dim.end());
    return flat;
  }

  // Pieces that follow each other in both orders count as one: the shape in the source's order, and the permutation.
  std::pair<Shape, Ints> moves() const {
    std::vector<size_t> flat = order();
    std::vector<size_t> place(sizes_.size());
    for (size_t i = 0; i < flat.size(); ++i) place[flat[i]] = i;
    Shape shape;
    std::vector<size_t> heads;
    for (size_t i = 0; i < source_.size(); ++i) {
      if (i > 0 && place[source_[i]] == place[source_[i - 1]] + 1) {
        shape.back() *= sizes_[source_[i]];
      } else {
        shape.push_back(sizes_[source_[i]]);
        heads.push_back(source_[i]);
      }
    }
    Ints perm(heads.size());
    for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
    std::sort(perm.begin(), perm.end(), [&](int64_t a, int64_t b) {
      return place[heads[static_cast<size_t>(a)]] < place[heads[static_cast<size_t>(b)]];
    });
    return {shape, perm};
  }

 private:
  // The piece keeps its outer `outer` steps; the rest is a new piece after it.
  size_t cut(size_t piece, int64_t outer) {
    size_t rest = sizes_.size();
    sizes_.push_back(sizes_[piece] / outer);
    sizes_[piece] = outer;
    source_.insert(std::find(source_.begin(), source_.end(), piece) + 1, rest);
    return rest;
  }

  std::vector<int64_t> sizes_;
  std::vector<size_t> source_;
  std::vector<std::vector<size_t>> dims_;  // outermost first
};

bool moves_purely(const Rewriter& rw, const Node& n) {
  if (n.op != Op::Transpose && n.op != Op::Reshape) return false;
  const Type &from = rw.type(n.inputs[0]), &to = rw.type(n.outputs[0]);
  return from.quant == to.quant && !(from.quantized() && from.quant->per_channel());
}

// transpose(reshape(transpose(x)))  ->  reshape(transpose(reshape(x))), or a reshape alone
bool collapse_transposes(Rewriter& rw, const Node& n) {
  if (!moves_purely(rw, n)) return false;
  std::vector<const Node*> chain = {&n};
  size_t length = 1;  // up to the transpose that is furthest away
  while (chain.size() < kLongestChain) {
    const Node* before = rw.graph().producer(chain.back()->inputs[0]);
    if (!before || !moves_purely(rw, *before)) break;
    chain.push_back(before);
    if (before->op == Op::Transpose) length = chain.size();
  }
  if (length == 1) return false;
  chain.resize(length);
  ValueId source = chain.back()->inputs[0];
  Pieces pieces(rw.type(source).shape);
  for (auto move = chain.rbegin(); move != chain.rend(); ++move) {
    if ((*move)->op == Op::Transpose)
      pieces.permute((*move)->ints(Key::Perm));
    else if (!pieces.regroup(rw.type((*move)->outputs[0]).shape))
      return false;
  }
  auto [shape, perm] = pieces.moves();
  if (static_cast<int64_t>(shape.size()) > facts_of(rw).max_rank) return false;
  const Shape out = rw.type(n.outputs[0]).shape;
  rw.replace(n, perm.size() < 2 ? reshape(rw, source, out)
                                : reshape(rw, transpose(rw, reshape(rw, source, shape), perm), out));
  return true;
}

}  // namespace

std::pair<Shape, Ints> fewest_dims(const Shape& shape, const Ints& perm) {
  Pieces pieces(shape);
  pieces.permute(perm);
  return pieces.moves();
}

std::span<const Rule> collapse_rules() {
  static const Rule kRules[] = {{"collapse-transposes", {Op::Transpose}, collapse_transposes}};
  return kRules;
}

}  // namespace swoop
