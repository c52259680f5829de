#include "llm/session.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "core/half.h"

namespace etir {
namespace llm {

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

using Lock = std::lock_guard<std::recursive_mutex>;

template <typename T>
void to_floats(const T* from, size_t count, float* to) {
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

}  // namespace

std::vector<int32_t> Session::tokens() const {
  const Lock lock(mutex_);
  return tokens_;
}

bool Session::check(const std::vector<int32_t>& ids, Failure* failure) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < model_->vocabulary_) continue;
    return failure->set(Cause::TokenOutside, "token " + std::to_string(i) + " is " + std::to_string(ids[i]) +
                                                 "; the model has " + std::to_string(model_->vocabulary_));
  }
  return true;
}

bool Session::prefill(const std::vector<int32_t>& ids, Failure* failure) {
  const Lock lock(mutex_);
  ++generation_;
  return check(ids, failure) && feed(ids.data(), ids.size(), nullptr, failure);
}

bool Session::logits(const std::vector<int32_t>& ids, std::vector<float>* rows, Failure* failure) {
  const Lock lock(mutex_);
  ++generation_;
  rows->clear();
  return check(ids, failure) && feed(ids.data(), ids.size(), rows, failure);
}

bool Session::feed(const int32_t* ids, size_t count, std::vector<float>* rows, Failure* failure) {
  const size_t context = static_cast<size_t>(model_->context_);
  if (tokens_.size() + count > context) {
    return failure->set(Cause::ContextFull, std::to_string(tokens_.size() + count) +
                                                " tokens do not fit into a context of " + std::to_string(context));
  }
  if (rows != nullptr) rows->reserve(count * static_cast<size_t>(model_->vocabulary_));
  for (size_t at = 0; at < count;) {
    size_t piece = std::min(count - at, static_cast<size_t>(model_->piece_));
    const size_t begin = tokens_.size();
    tokens_.insert(tokens_.end(), ids + at, ids + at + piece);
    reached_ = std::max(reached_, tokens_.size());
    if (!run(begin, piece, rows != nullptr, rows, failure)) {
      tokens_.resize(begin);
      return false;
    }
    // The logits of each were wanted and the method gives the last only: run() took one token.
    piece = tokens_.size() - begin;
    at += piece;
  }
  return true;
}

/// Runs for tokens_[begin, begin + count), which are the last. Takes the first of them only, and forgets the others,
/// when the logits of each are wanted and the method does not give them.
bool Session::run(size_t begin, size_t count, bool all, std::vector<float>* rows, Failure* failure) {
  if (all && !model_->every_) {
    count = 1;
    tokens_.resize(begin + 1);
  }
  const size_t from = model_->cached_ ? begin : 0;
  const size_t taken = model_->cached_ ? count : tokens_.size();
  ids_.assign(tokens_.begin() + static_cast<ptrdiff_t>(from), tokens_.begin() + static_cast<ptrdiff_t>(from + taken));
  host::Method& method = taken > 1 ? *prefill_ : *decode_;
  const bool positions = taken > 1 ? model_->prefill_positions_ : model_->decode_positions_;
  positions_.resize(positions ? taken : 1);
  std::iota(positions_.begin(), positions_.end(), static_cast<int64_t>(from));
  std::vector<host::Input> inputs = {host::Input::tensor(ids_.data(), {1, static_cast<int32_t>(taken)})};
  if (model_->cached_) {
    inputs.push_back(host::Input::tensor(positions_.data(), {static_cast<int32_t>(positions_.size())}));
  }
  const host::Status status = method.run(inputs, &outputs_);
  if (!status.ok()) return failure->set(Cause::Program, status.message);
  host::Output& output = outputs_[0];
  const size_t vocabulary = static_cast<size_t>(model_->vocabulary_);
  const size_t given = output.sizes.size() == 3 ? static_cast<size_t>(output.sizes[1]) : 1;
  const size_t wanted = all ? count : 1;
  if (given < wanted || static_cast<size_t>(output.sizes.back()) != vocabulary || output.data == nullptr) {
    return failure->set(Cause::NoLanguageModel, "the program gave logits of another shape than it says");
  }
  float* to = nullptr;
  const size_t skip = (given - wanted) * vocabulary;
  if (all) {
    rows->resize(rows->size() + wanted * vocabulary);
    to = rows->data() + rows->size() - wanted * vocabulary;
  } else if (output.dtype == ScalarType::Float && skip == 0) {
    float* const values = static_cast<float*>(output.data.get());
    last_ = {std::move(output.data), values, vocabulary};
    return true;
  } else {
    const auto memory = std::make_shared<std::vector<float>>(vocabulary);
    to = memory->data();
    last_ = {memory, to, vocabulary};
  }
  switch (output.dtype) {
    case ScalarType::Float:
      std::copy_n(output.values<float>() + skip, wanted * vocabulary, to);
      break;
    case ScalarType::Half:
      to_floats(output.values<Half>() + skip, wanted * vocabulary, to);
      break;
    default:
      to_floats(output.values<BFloat16>() + skip, wanted * vocabulary, to);
  }
  return true;
}

bool Session::lost(size_t count) const {
  // A ring that has gone round has lost positions before the count, unless it has room for more than its window.
  const bool round = model_->window_ > 0 && reached_ > static_cast<size_t>(model_->window_);
  return count < tokens_.size() && round && reached_ - count > static_cast<size_t>(model_->rewind_);
}

bool Session::keep(size_t count, Failure* failure) {
  if (count >= tokens_.size()) return true;
  const bool again = lost(count);
  const std::vector<int32_t> kept(tokens_.begin(), tokens_.begin() + static_cast<ptrdiff_t>(count));
  tokens_.resize(again ? 0 : count);
  if (tokens_.empty()) reached_ = 0;
  return !again || feed(kept.data(), kept.size(), nullptr, failure);
}

bool Session::rewind(int64_t count, Failure* failure) {
  const Lock lock(mutex_);
  if (count < 0 || static_cast<uint64_t>(count) > tokens_.size()) {
    return failure->set(Cause::RewindTooFar, std::to_string(count) + " tokens cannot be taken back: the session has " +
                                                 std::to_string(tokens_.size()));
  }
  ++generation_;
  return keep(tokens_.size() - static_cast<size_t>(count), failure);
}

std::shared_ptr<Generation> Session::generate(std::vector<int32_t> ids, const GenerateOptions& options,
                                              Failure* failure) {
  const Lock lock(mutex_);
  if (!options.sampling.check(failure) || !check(ids, failure)) return nullptr;
  if (ids.empty()) {
    failure->set(Cause::TokenOutside, "the prompt has no tokens");
    return nullptr;
  }
  if (ids.size() > static_cast<size_t>(model_->context_)) {
    failure->set(Cause::ContextFull, "the prompt has " + std::to_string(ids.size()) + " tokens, the context " +
                                         std::to_string(model_->context_));
    return nullptr;
  }
  std::shared_ptr<Generation> generation(new Generation(shared_from_this(), std::move(ids), options));
  generation->number_ = ++generation_;
  if (options.json) {
    const auto tokens = model_->token_bytes();
    if (tokens == nullptr) {
      failure->set(Cause::NothingAllowed, "a grammar needs a tokenizer");
      return nullptr;
    }
    generation->grammar_ = json_grammar(tokens);
  }
  return generation;
}

// --- answers --------------------------------------------------------------------------------------------------------

Generation::Generation(std::shared_ptr<Session> session, std::vector<int32_t> ids, const GenerateOptions& options)
    : session_(std::move(session)),
      prompt_(std::move(ids)),
      options_(options),
      sampler_(options.sampling),
      stops_(options.stop) {
  const auto& tokenizer = session_->model_->tokenizer_;
  if (tokenizer != nullptr) stream_ = std::make_unique<DecodeStream>(tokenizer->stream(true));
  began_ = seconds();
  done_ = options.max_tokens == 0;
}

bool Generation::current(Failure* failure) const {
  if (number_ == session_->generation_) return true;
  return failure->set(Cause::Busy, "the session has been used for something else since this answer began");
}

bool Generation::advance(Failure* failure) {
  const Lock lock(session_->mutex_);
  if (done_ || !current(failure)) return false;
  Session& session = *session_;
  const double before = seconds();
  if (answer_.empty()) {
    // The last token of the prompt is always fed: its logits are wanted.
    const size_t most = std::min(session.tokens_.size(), prompt_.size() - 1);
    const auto differ =
        std::mismatch(prompt_.begin(), prompt_.begin() + static_cast<ptrdiff_t>(most), session.tokens_.begin());
    const size_t common = static_cast<size_t>(differ.first - prompt_.begin());
    statistics_.prompt_tokens = static_cast<int64_t>(prompt_.size());
    statistics_.reused_tokens = session.lost(common) ? 0 : static_cast<int64_t>(common);
    if (!session.keep(common, failure)) return false;
    if (!session.feed(prompt_.data() + common, prompt_.size() - common, nullptr, failure)) return false;
    statistics_.prefill_seconds = seconds() - before;
  } else {
    if (!session.feed(&answer_.back(), 1, nullptr, failure)) return false;
    statistics_.decode_seconds += seconds() - before;
  }
  return true;
}

bool Generation::choose(Token* token, Failure* failure) {
  const Lock lock(session_->mutex_);
  if (done_ || !current(failure)) return false;
  const double before = seconds();
  const LanguageModel& model = *session_->model_;
  const auto& tokenizer = model.tokenizer_;
  // A model may have more logits than there are tokens.
  size_t size = session_->last_.count;
  if (tokenizer != nullptr) size = std::min(size, static_cast<size_t>(tokenizer->vocabulary_size()));
  const uint8_t* mask = nullptr;
  if (grammar_ != nullptr) {
    grammar_->allow(&mask_);
    mask_.resize(size, 0);
    mask = mask_.data();
  }
  *token = {};
  Failure why;
  if (!sampler_.choose(session_->last_.values, size, answer_, mask, &token->id, &why)) {
    done_ = true;
    return failure->set(why.cause, why.message + " at position " + std::to_string(session_->tokens_.size()));
  }
  ++statistics_.generated_tokens;
  if (answer_.empty()) statistics_.first_token_seconds = seconds() - began_;
  answer_.push_back(token->id);
  if (grammar_ != nullptr) grammar_->accept(token->id);
  if (model.is_eos(token->id)) {
    token->finish = Finish::Stop;
  } else {
    if (stream_ != nullptr) token->text = stops_.push(stream_->push(token->id));
    const bool over = grammar_ != nullptr && grammar_->over();
    const bool full = session_->tokens_.size() >= static_cast<size_t>(model.context_);
    const bool enough = options_.max_tokens >= 0 && statistics_.generated_tokens >= options_.max_tokens;
    token->finish = stops_.found() ? Finish::StopString
                    : over         ? Finish::Stop
                    : enough       ? Finish::Length
                    : full         ? Finish::Context
                                   : Finish::None;
  }
  if (token->finish != Finish::None) {
    done_ = true;
    if (!stops_.found() && stream_ != nullptr) {
      token->text += stops_.push(stream_->flush());
      token->text += stops_.flush();
    }
  }
  statistics_.decode_seconds += answer_.size() > 1 ? seconds() - before : 0;
  return true;
}

}  // namespace llm
}  // namespace etir
