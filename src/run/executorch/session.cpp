// One loaded program: the runtime's Program and Method with memory that is counted.
#include "run/executorch/session.h"

#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/platform/platform.h>
#include <executorch/runtime/platform/runtime.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>

#include "support/parallel.h"

namespace swoop {

namespace {

namespace et = executorch::runtime;

constexpr size_t kAlignment = 64;
constexpr size_t kMaxBytes =
    size_t{1} << 33;  // of one allocation and of all arenas: no model for these devices comes near
constexpr size_t kMaxLog = 2000;

struct TypeName {
  int type;
  std::string_view name;
};
// executorch/schema/scalar_type.fbs
constexpr TypeName kTypes[] = {{0, "uint8"},   {1, "int8"},    {2, "int16"},   {3, "int32"}, {4, "int64"},
                               {5, "float16"}, {6, "float32"}, {7, "float64"}, {11, "bool"}, {15, "bfloat16"},
                               {27, "uint16"}, {28, "uint32"}, {29, "uint64"}};

// -- the runtime's log: kept for our own error messages instead of being printed

std::mutex log_mutex;
std::string log_text;

void keep_log(et_timestamp_t, et_pal_log_level_t level, const char*, const char*, size_t, const char* message,
              size_t length) {
  if (level != et_pal_log_level_t::kError && level != et_pal_log_level_t::kFatal) return;
  std::lock_guard lock(log_mutex);
  if (log_text.size() > kMaxLog) return;
  if (!log_text.empty()) log_text += "; ";
  log_text.append(message, length);
}

std::string take_log() {
  std::lock_guard lock(log_mutex);
  return std::exchange(log_text, {});
}

void start_runtime() {
  static std::once_flag once;
  std::call_once(once, [] {
    et::register_pal(et::PalImpl::create(keep_log, __FILE__));
    et::runtime_init();
  });
}

// -- memory

// Counts what the runtime asks for; the device must offer as much. It says that it has `size` bytes, which the runtime
// asks the temporary allocator for.
class CountingAllocator final : public et::MemoryAllocator {
 public:
  explicit CountingAllocator(const uint32_t* size = nullptr) : et::MemoryAllocator(0, nullptr), said_size_(size) {}
  ~CountingAllocator() override { release(); }

  void* allocate(size_t size, size_t alignment) override {
    if (size > kMaxBytes || alignment == 0 || (alignment & (alignment - 1)) != 0) return nullptr;
    used_ = (used_ + alignment - 1) / alignment * alignment + size;
    peak_ = std::max(peak_, used_);
    size_t step = std::max(alignment, kAlignment);
    void* block = std::aligned_alloc(step, std::max((size + step - 1) / step * step, step));
    if (block) blocks_.push_back(block);
    return block;
  }
  void reset() override { release(); }
  uint32_t size() const override { return said_size_ ? *said_size_ : 0; }
  size_t used_size() const override { return used_; }
  size_t free_size() const override { return kMaxBytes - used_; }
  size_t peak() const { return peak_; }

 private:
  void release() {
    for (void* block : blocks_) std::free(block);
    blocks_.clear();
    used_ = 0;
  }
  const uint32_t* said_size_;
  std::vector<void*> blocks_;
  size_t used_ = 0;
  size_t peak_ = 0;
};

struct Free {
  void operator()(void* block) const { std::free(block); }
};
using Block = std::unique_ptr<uint8_t, Free>;

Block make_block(size_t bytes) {
  size_t size = std::max((bytes + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
  Block block(static_cast<uint8_t*>(std::aligned_alloc(kAlignment, size)));
  if (block) std::memset(block.get(), 0, size);
  return block;
}

class ActiveScope {
 public:
  explicit ActiveScope(ActiveRun& run) { active_run() = &run; }
  ~ActiveScope() { active_run() = nullptr; }
};

// -- the session

class Session final : public ProgramRunner {
 public:
  explicit Session(const RuntimeOptions& options) {
    active_.options = options;
    active_.options.npu.cache = make_run_cache();  // weights are decoded for the first sample
  }

  Result<void> load(Bytes bytes) {
    start_runtime();
    if (active_.options.threads > 0) set_thread_count(active_.options.threads);
    take_log();
    if (reinterpret_cast<uintptr_t>(bytes.data()) % kAlignment != 0) {
      aligned_ = make_block(bytes.size());
      std::memcpy(aligned_.get(), bytes.data(), bytes.size());
      bytes = Bytes(reinterpret_cast<const std::byte*>(aligned_.get()), bytes.size());
    }
    loader_.emplace(bytes.data(), bytes.size());
    auto program = et::Program::load(&*loader_, et::Program::Verification::InternalConsistency);
    if (!program.ok()) return failed("The runtime does not accept this file as a program", program.error());
    program_.emplace(std::move(*program));
    return load_method();
  }

  const std::vector<RunTensor>& inputs() const override { return inputs_; }
  const std::vector<RunTensor>& outputs() const override { return outputs_; }
  const std::vector<RegionTraffic>& regions() const override { return active_.traffic; }
  RunMemory memory() const override {
    return {planned_bytes_, static_cast<int64_t>(method_memory_.peak()), static_cast<int64_t>(temp_memory_.peak())};
  }

  Result<std::vector<RunTensor>> run(std::span<const RunTensor> inputs) override {
    ActiveScope scope(active_);
    active_.traffic.clear();
    active_.failure.clear();
    take_log();
    if (inputs.size() != inputs_.size())
      return error("The program takes {} inputs and is given {}.", inputs_.size(), inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) TRY(set_input(i, inputs[i]));
    et::Error status = method_->execute();
    if (status != et::Error::Ok) return failed("The program did not run to its end", status);
    std::vector<RunTensor> outputs;
    for (size_t i = 0; i < method_->outputs_size(); ++i) {
      const et::EValue& value = method_->get_output(i);
      if (!value.isTensor()) return error("Output {} of the program is no tensor.", i);
      const executorch::aten::Tensor& tensor = value.toTensor();
      RunTensor output = outputs_[i];
      output.shape.assign(tensor.sizes().begin(), tensor.sizes().end());
      const auto* bytes = static_cast<const std::byte*>(tensor.const_data_ptr());
      output.data.assign(bytes, bytes + tensor.nbytes());
      outputs.push_back(std::move(output));
    }
    return outputs;
  }

 private:
  Error failed(std::string_view what, et::Error code) {
    std::string reason = !active_.failure.empty() ? active_.failure : take_log();
    return error("{}: {}{}[{}]", what, reason, reason.empty() ? "" : " ", et::to_string(code));
  }

  Result<void> load_method() {
    if (program_->num_methods() == 0) return error("The program has no method.");
    std::string name = program_->get_method_name(0).get();
    for (size_t i = 0; i < program_->num_methods(); ++i)
      if (std::string_view(program_->get_method_name(i).get()) == "forward") name = "forward";
    auto meta = program_->method_meta(name.c_str());
    if (!meta.ok()) return failed("The program's method cannot be read", meta.error());
    for (size_t i = 0; i < meta->num_memory_planned_buffers(); ++i) {
      auto size = meta->memory_planned_buffer_size(i);
      if (!size.ok() || *size < 0 || static_cast<size_t>(*size) > kMaxBytes)
        return error("The program plans an arena of an absurd size.");
      planned_bytes_ += *size;
      arenas_.push_back(make_block(static_cast<size_t>(*size)));
      if (!arenas_.back()) return error("An arena of {} bytes does not fit into this machine's memory.", *size);
      spans_.emplace_back(arenas_.back().get(), static_cast<size_t>(*size));
    }
    arena_allocator_.emplace(et::Span<et::Span<uint8_t>>(spans_.data(), spans_.size()));
    memory_.emplace(&method_memory_, &*arena_allocator_, &temp_memory_);
    ActiveScope scope(active_);
    auto method = program_->load_method(name.c_str(), &*memory_);
    if (!method.ok()) return failed("The program's method cannot be loaded", method.error());
    method_.emplace(std::move(*method));
    for (size_t i = 0; i < meta->num_inputs(); ++i) TRY(add_port(inputs_, meta->input_tensor_meta(i), "input"));
    for (size_t i = 0; i < meta->num_outputs(); ++i) TRY(add_port(outputs_, meta->output_tensor_meta(i), "output"));
    name_inputs(*meta);
    return {};
  }

  // The runtime's metadata names buffers ("attributes") and not inputs. A named input is an attribute that is the
  // input's tensor.
  void name_inputs(const et::MethodMeta& meta) {
    for (size_t a = 0; a < meta.num_attributes(); ++a) {
      auto info = meta.attribute_tensor_meta(a);
      if (!info.ok()) continue;
      auto attribute = method_->get_attribute(info->name());
      for (size_t i = 0; attribute.ok() && i < inputs_.size(); ++i)
        if (input_tensor(i) == attribute->unsafeGetTensorImpl()) inputs_[i].name = info->name();
    }
  }

  const executorch::aten::TensorImpl* input_tensor(size_t index) const {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // no other call tells which tensor an input is
    return method_->get_input(index).toTensor().unsafeGetTensorImpl();
#pragma GCC diagnostic pop
  }

  static Result<void> add_port(std::vector<RunTensor>& ports, const et::Result<et::TensorInfo>& info,
                               std::string_view kind) {
    if (!info.ok())
      return error("The program has an {} that is no tensor; only tensors can be given and returned here.", kind);
    RunTensor port;
    port.dtype = type_name(static_cast<int>(info->scalar_type()));
    port.shape.assign(info->sizes().begin(), info->sizes().end());
    ports.push_back(std::move(port));
    return {};
  }

  Result<void> set_input(size_t index, const RunTensor& given) {
    const RunTensor& wanted = inputs_[index];
    if (given.dtype != wanted.dtype || given.shape != wanted.shape)
      return error("Input {} is given with another type or shape than the program's {}.", index, wanted.dtype);
    auto type = static_cast<executorch::aten::ScalarType>(
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeName& t) {
          return t.name == wanted.dtype;
        })->type);
    std::vector<executorch::aten::SizesType> sizes(given.shape.begin(), given.shape.end());
    auto tensor = executorch::extension::from_blob(const_cast<std::byte*>(given.data.data()), sizes, type);
    if (tensor->nbytes() != given.data.size())
      return error("Input {} holds {} bytes instead of {}.", index, given.data.size(), tensor->nbytes());
    et::Error status = method_->set_input(et::EValue(*tensor), index);
    if (status != et::Error::Ok) return failed(fmt::format("Input {} is refused", index), status);
    return {};
  }

  ActiveRun active_;
  Block aligned_;
  std::vector<RunTensor> inputs_;
  std::vector<RunTensor> outputs_;
  int64_t planned_bytes_ = 0;
  // In the order in which they depend on one another.
  std::optional<executorch::extension::BufferDataLoader> loader_;
  std::optional<et::Program> program_;
  std::vector<Block> arenas_;
  std::vector<et::Span<uint8_t>> spans_;
  CountingAllocator method_memory_;
  CountingAllocator temp_memory_{&active_.scratch_bytes};
  std::optional<et::HierarchicalAllocator> arena_allocator_;
  std::optional<et::MemoryManager> memory_;
  std::optional<et::Method> method_;
};

Result<std::unique_ptr<ProgramRunner>> load_session(Bytes program, const RuntimeOptions& options) {
  auto session = std::make_unique<Session>(options);
  TRY(session->load(program));
  return std::unique_ptr<ProgramRunner>(std::move(session));
}

constexpr RuntimeApi kApi = {kRuntimeApiVersion, load_session};

}  // namespace

std::string_view type_name(int scalar_type) {
  const auto* at =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeName& t) { return t.type == scalar_type; });
  return at == std::end(kTypes) ? "" : at->name;
}

}  // namespace swoop

extern "C" __attribute__((visibility("default"))) const swoop::RuntimeApi* swoop_runtime_api() { return &swoop::kApi; }
