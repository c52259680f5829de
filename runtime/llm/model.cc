// Loading: what the file says about itself.
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "llm/session.h"

namespace etir {
namespace llm {

namespace {

std::string text(StringView view) { return view.data == nullptr ? std::string() : std::string(view.data, view.size); }

bool file_exists(const std::string& path) {
  struct stat found;
  return stat(path.c_str(), &found) == 0;
}

/// Mixes 8 bytes at a time: a check for equality, not for a hand that forges.
uint64_t digest_of(const void* data, size_t size) {
  const unsigned char* bytes = static_cast<const unsigned char*>(data);
  uint64_t lanes[4] = {1, 2, 3, 4};
  size_t at = 0;
  for (; at + 32 <= size; at += 32) {
    for (size_t lane = 0; lane < 4; ++lane) {
      uint64_t word;
      std::memcpy(&word, bytes + at + 8 * lane, 8);
      lanes[lane] = (lanes[lane] ^ word) * 0x9E3779B97F4A7C15u;
      lanes[lane] ^= lanes[lane] >> 29;
    }
  }
  uint64_t digest = size;
  for (const uint64_t lane : lanes) digest = (digest ^ lane) * 0xBF58476D1CE4E5B9u, digest ^= digest >> 31;
  for (; at < size; ++at) digest = (digest ^ bytes[at]) * 0x100000001B3u;
  return digest ^ digest >> 32;
}

}  // namespace

std::shared_ptr<LanguageModel> LanguageModel::load(const std::string& path, const Options& options, Failure* failure) {
  std::shared_ptr<LanguageModel> model(new LanguageModel());
  host::Status status;
  model->bytes_ = host::map_file(path, &status);
  model->runtime_ = options.runtime;
  if (status.ok()) model->module_ = host::Module::load(model->bytes_, {}, options.runtime, &status);
  if (model->module_ == nullptr) {
    failure->set(Cause::Program, status.message);
    return nullptr;
  }
  model->eos_ids_ = options.eos_ids;
  if (!model->read(failure)) return nullptr;
  if (!options.tokenizer_json.empty()) {
    model->tokenizer_ = Tokenizer::parse(options.tokenizer_json, failure);
  } else {
    std::string name = options.tokenizer;
    const size_t dot = path.rfind('.');
    if (name.empty())
      name = path.substr(0, dot == std::string::npos || path.find('/', dot) != std::string::npos ? path.size() : dot) +
             ".tokenizer.json";
    if (!options.tokenizer.empty() || file_exists(name)) model->tokenizer_ = Tokenizer::load(name, failure);
  }
  if (!failure->ok()) return nullptr;
  if (model->tokenizer_ != nullptr && model->tokenizer_->vocabulary_size() > model->vocabulary_) {
    failure->set(Cause::VocabularyTooLarge, "the tokenizer has " +
                                                std::to_string(model->tokenizer_->vocabulary_size()) +
                                                " tokens, the model " + std::to_string(model->vocabulary_));
    return nullptr;
  }
  return model;
}

/// What a method without inputs returns, if there is one: `*value` stays as it is otherwise.
bool LanguageModel::integer(const char* name, int64_t* value, Failure* failure) {
  const Result<MethodMeta> meta = module_->program().method_meta(name);
  if (!meta.ok() || meta->num_inputs() != 0) return true;
  host::Status status;
  std::vector<host::Output> outputs;
  const auto method = module_->load_method(name, &status);
  if (method != nullptr) status = method->run({}, &outputs);
  if (!status.ok() || outputs.size() != 1)
    return failure->set(Cause::Program, std::string(name) + ": " + status.message);
  const host::Output& output = outputs[0];
  if (output.tag == Tag::Int) {
    *value = output.scalar.integer;
  } else if (output.tag == Tag::Bool) {
    *value = output.scalar.boolean ? 1 : 0;
  } else {
    return failure->set(Cause::NoLanguageModel, std::string("the method ") + name + " does not return a number");
  }
  return true;
}

/// Checks the inputs and the output of the method that takes pieces, or single tokens.
bool LanguageModel::read_method(const std::string& name, bool prefill, Failure* failure) {
  const auto wrong = [&](const std::string& what) {
    return failure->set(Cause::NoLanguageModel, "the method " + name + " " + what);
  };
  const Result<MethodMeta> meta = module_->program().method_meta(StringView{name.data(), name.size()});
  if (!meta.ok()) return failure->set(Cause::NoLanguageModel, "the program has no method 'forward'");
  const uint32_t inputs = meta->num_inputs();
  if (inputs < 1 || inputs > 2 || meta->num_outputs() != 1)
    return wrong("does not take tokens and a position and give logits");
  for (uint32_t i = 0; i < inputs; ++i) {
    if (meta->input_tag(i) != Tag::Tensor || meta->input_tensor(i).dtype != ScalarType::Long) {
      return wrong("has an input that is no int64 tensor");
    }
  }
  const TensorInfo ids = meta->input_tensor(0);
  if (ids.rank != 2 || ids.sizes[0] != 1 || ids.sizes[1] < 1) return wrong("does not take token ids int64[1, n]");
  cached_ = inputs == 2;
  bool positions = false;
  if (cached_) {
    const TensorInfo position = meta->input_tensor(1);
    if (position.rank != 1 || position.sizes[0] < 1) return wrong("does not take a position int64[n]");
    positions = position.sizes[0] > 1;
  }
  (prefill ? prefill_positions_ : decode_positions_) = positions;
  if (meta->output_tag(0) != Tag::Tensor) return wrong("does not give a tensor");
  const TensorInfo logits = meta->output_tensor(0);
  const bool floats =
      logits.dtype == ScalarType::Float || logits.dtype == ScalarType::Half || logits.dtype == ScalarType::BFloat16;
  if (!floats || logits.rank < 2 || logits.rank > 3 || logits.sizes[0] != 1 || logits.sizes[logits.rank - 1] < 1) {
    return wrong("does not give logits [1, vocabulary] or [1, n, vocabulary]");
  }
  vocabulary_ = logits.sizes[logits.rank - 1];
  if (prefill) {
    // A method for a fixed number of tokens other than one cannot take the last piece of a prompt.
    if (ids.dynamism == Dynamism::Static && ids.sizes[1] != 1) return wrong("takes a fixed number of tokens");
    piece_ = ids.sizes[1];
    every_ = logits.rank == 3;
  }
  return true;
}

bool LanguageModel::read(Failure* failure) {
  const etir::Program& program = module_->program();
  if (program.method_meta("prefill").ok() && program.method_meta("decode").ok()) {
    prefill_ = "prefill";
    decode_ = "decode";
  }
  if (!read_method(prefill_, true, failure) || (decode_ != prefill_ && !read_method(decode_, false, failure)))
    return false;
  if (decode_ == prefill_) decode_positions_ = prefill_positions_;
  int64_t most = 0, dynamic = piece_ > 1 ? 1 : 0;
  if (!integer("get_max_seq_len", &most, failure)) return false;
  if (most < 1) return failure->set(Cause::NoLanguageModel, "the program has no method get_max_seq_len");
  context_ = most;
  if (!integer("get_max_context_len", &context_, failure)) return false;
  if (context_ < 1)
    return failure->set(Cause::NoLanguageModel, "get_max_context_len returns " + std::to_string(context_));
  if (!integer("enable_dynamic_shape", &dynamic, failure) || !integer("sliding_window", &window_, failure) ||
      !integer("get_max_rewind", &rewind_, failure)) {
    return false;
  }
  rewind_ = std::max<int64_t>(rewind_, 0);
  piece_ = cached_ && dynamic == 0 ? 1 : std::min(piece_, most);
  if (!cached_) context_ = std::min(context_, piece_);
  const Result<MethodMeta> eos = program.method_meta("get_eos_ids");
  if (eos.ok() && eos->num_inputs() == 0) {
    host::Status status;
    std::vector<host::Output> outputs;
    const auto method = module_->load_method("get_eos_ids", &status);
    if (method != nullptr) status = method->run({}, &outputs);
    if (!status.ok()) return failure->set(Cause::Program, "get_eos_ids: " + status.message);
    eos_ids_.clear();
    for (const host::Output& output : outputs) {
      if (output.tag == Tag::Int) eos_ids_.push_back(output.scalar.integer);
      for (const host::Output& item : output.items) {
        if (item.tag == Tag::Int) eos_ids_.push_back(item.scalar.integer);
      }
    }
  }
  for (uint32_t m = 0; m < program.num_methods(); ++m) {
    const MethodMeta other = program.method_meta(m);
    const MethodMeta own = *program.method_meta(StringView{prefill_.data(), prefill_.size()});
    if (text(other.name()) == prefill_) continue;
    for (uint32_t i = 1; i < std::min(own.num_planned_buffers(), other.num_planned_buffers()); ++i) {
      shared_state_ = shared_state_ ||
                      (own.planned_buffer_size(i) > 0 && own.planned_buffer_size(i) == other.planned_buffer_size(i));
    }
  }
  return true;
}

bool LanguageModel::is_eos(int32_t id) const {
  return std::find(eos_ids_.begin(), eos_ids_.end(), id) != eos_ids_.end();
}

uint64_t LanguageModel::digest() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (digest_ == 0) digest_ = digest_of(bytes_.data, bytes_.size) | 1;
  return digest_;
}

std::shared_ptr<const TokenBytes> LanguageModel::token_bytes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (token_bytes_ == nullptr && tokenizer_ != nullptr) token_bytes_ = std::make_shared<TokenBytes>(*tokenizer_);
  return token_bytes_;
}

std::shared_ptr<Session> LanguageModel::session(Failure* failure) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<Session> session(new Session(shared_from_this()));
  host::Status status;
  std::shared_ptr<host::Module> module = module_;
  std::vector<std::shared_ptr<host::Method>> share;
  if (shared_state_) {
    // Methods of one module see the same state. A second one reads the same bytes.
    module = host::Module::load(bytes_, {}, runtime_, &status);
  } else {
    for (const auto& other : methods_) {
      if (auto alive = other.lock()) share.push_back(std::move(alive));
    }
  }
  if (module != nullptr) session->prefill_ = module->load_method(prefill_, &status, share);
  session->decode_ = session->prefill_;
  if (session->prefill_ != nullptr && decode_ != prefill_)
    session->decode_ = module->load_method(decode_, &status, share);
  if (session->decode_ == nullptr) {
    failure->set(Cause::Program, status.message);
    return nullptr;
  }
  session_bytes_ = session->prefill_->method_bytes();
  for (const uint64_t size : session->prefill_->planned_bytes()) session_bytes_ += size;
  methods_.erase(std::remove_if(methods_.begin(), methods_.end(), [](auto& other) { return other.expired(); }),
                 methods_.end());
  if (!shared_state_) methods_.push_back(session->prefill_);
  return session;
}

}  // namespace llm
}  // namespace etir
