// Language models and conversations with them.
//
//   Failure failure;
//   auto model = LanguageModel::load("model.pte", {}, &failure);
//   auto session = model->session(&failure);
//   auto generation = session->generate(ids, GenerateOptions(), &failure);
//   Token token;
//   while (generation->next(&token, &failure)) std::fputs(token.text.c_str(), stdout);
//
// A model is a file of the contract of ExecuTorch's text runner: `forward` (or `prefill` and `decode`, which share
// their state) takes token ids i64[1, n] and a position, and gives logits; numbers about it are methods without inputs.
// The cache is state of the program, and where it ends is known here only: taking tokens back changes one number, as
// attention never looks past the position that it is given. A sliding window's cache may be a ring, in which later
// tokens have taken the places of earlier ones: where it lacks what is needed, tokens are fed again. Files of rings say
// so: `sliding_window`, the positions after which a ring goes round at the earliest, and `get_max_rewind`, the tokens
// that can be taken back then.
//
// A session knows which tokens its cache holds. A prompt that begins with them is fed from where it differs, so that
// the whole conversation may be given each time. All sessions of a model read the weights from one place; each has a
// cache of its own. A session is used by one thread at a time (its calls wait for each other); sessions run side by
// side.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "llm/failure.h"
#include "llm/grammar.h"
#include "llm/sampler.h"
#include "llm/tokenizer.h"
#include "platform/host_module.h"

namespace etir {
namespace llm {

/// Logits after a token: those that the program gave, not a copy, where it gives float32 of one token.
struct Logits {
  std::shared_ptr<void> owner;
  float* values = nullptr;
  size_t count = 0;
};

class Session;
class Generation;

/// How a piece of an answer ends it, if it does.
enum class Finish { None, Stop, StopString, Length, Context };

struct Token {
  int32_t id = -1;
  std::string text;  ///< what it adds to the answer, valid UTF-8; may be empty while a character is not whole
  Finish finish = Finish::None;
};

struct GenerateOptions {
  Sampling sampling;
  int64_t max_tokens = -1;  ///< -1: as many as the context takes
  std::vector<std::string> stop;
  bool json = false;  ///< only tokens that make a JSON object
};

struct Statistics {
  int64_t prompt_tokens = 0, reused_tokens = 0, generated_tokens = 0;
  double prefill_seconds = 0, decode_seconds = 0, first_token_seconds = 0;
};

class LanguageModel : public std::enable_shared_from_this<LanguageModel> {
 public:
  struct Options {
    std::string tokenizer;         ///< tokenizer.json; empty: model.tokenizer.json beside model.pte, if it is there
    std::string tokenizer_json;    ///< its text instead
    std::vector<int64_t> eos_ids;  ///< used when the file does not say which tokens end an answer
    host::Options runtime;         ///< threads, instruction set, native code
  };
  static std::shared_ptr<LanguageModel> load(const std::string& path, const Options& options, Failure* failure);

  /// A conversation with an empty cache of its own.
  std::shared_ptr<Session> session(Failure* failure);

  /// Null when there is none.
  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }
  int64_t context() const { return context_; }             ///< tokens that a conversation may have
  int64_t prefill_piece() const { return piece_; }         ///< tokens that one call takes at most
  int64_t vocabulary_size() const { return vocabulary_; }  ///< logits of a position
  bool every_position() const { return every_; }           ///< a call gives logits of each token, not of the last only
  const std::vector<int64_t>& eos_ids() const { return eos_ids_; }
  bool is_eos(int32_t id) const;
  /// Bytes: of the file, which is mapped; of the memory of one session.
  size_t file_bytes() const { return bytes_.size; }
  size_t session_bytes() const { return session_bytes_; }
  const std::string& isa() const { return module_->isa(); }
  /// A number that tells programs apart: of all bytes of the file.
  uint64_t digest();

 private:
  friend class Session;
  friend class Generation;
  bool read(Failure* failure);
  bool read_method(const std::string& name, bool prefill, Failure* failure);
  bool integer(const char* name, int64_t* value, Failure* failure);
  std::shared_ptr<const TokenBytes> token_bytes();

  host::Bytes bytes_;
  host::Options runtime_;
  std::shared_ptr<host::Module> module_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<int64_t> eos_ids_;
  std::string prefill_ = "forward", decode_ = "forward";
  int64_t context_ = 0, piece_ = 0, vocabulary_ = 0;
  int64_t window_ = 0;  ///< caches may be rings, and go round after so many positions at the earliest; 0: they are not
  int64_t rewind_ = 0;  ///< tokens that can be taken back then
  bool cached_ = true;  ///< there is a cache: positions are given
  bool every_ = false;  ///< there are logits of each token of a call
  bool prefill_positions_ = false, decode_positions_ = false;  ///< a position for each token, not only the first
  bool shared_state_ = false;  ///< methods share memory: a session needs a module of its own
  size_t session_bytes_ = 0;
  std::mutex mutex_;
  uint64_t digest_ = 0;
  std::shared_ptr<const TokenBytes> token_bytes_;
  std::vector<std::weak_ptr<host::Method>> methods_;  ///< whose delegates new sessions may use
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  const std::shared_ptr<LanguageModel>& model() const { return model_; }
  /// What the cache holds.
  std::vector<int32_t> tokens() const;
  /// Feeds tokens after those. When it fails, those that were fed before the failure stay.
  bool prefill(const std::vector<int32_t>& ids, Failure* failure);
  /// The same, with the logits after each: f32[ids, vocabulary].
  bool logits(const std::vector<int32_t>& ids, std::vector<float>* rows, Failure* failure);
  /// Takes tokens back.
  bool rewind(int64_t count, Failure* failure);
  /// Writes the tokens and the cache to a file, and reads them: only into a session of the same program.
  bool save(const std::string& path, Failure* failure);
  bool restore(const std::string& path, Failure* failure);
  /// An answer to a prompt, which is the whole text so far. Ends what another generate() of the session had begun.
  std::shared_ptr<Generation> generate(std::vector<int32_t> ids, const GenerateOptions& options, Failure* failure);

 private:
  friend class LanguageModel;
  friend class Generation;
  explicit Session(std::shared_ptr<LanguageModel> model) : model_(std::move(model)) {}
  bool check(const std::vector<int32_t>& ids, Failure* failure) const;
  /// Feeds; has the logits after the last token in last_, or after each in `rows`.
  bool feed(const int32_t* ids, size_t count, std::vector<float>* rows, Failure* failure);
  bool run(size_t begin, size_t count, bool all, std::vector<float>* rows, Failure* failure);
  /// Whether the cache no longer has what attention to the first `count` tokens needs.
  bool lost(size_t count) const;
  /// Keeps the first `count` tokens; feeds them again if they are lost.
  bool keep(size_t count, Failure* failure);

  std::shared_ptr<LanguageModel> model_;
  std::shared_ptr<host::Method> prefill_, decode_;
  mutable std::recursive_mutex mutex_;
  std::vector<int32_t> tokens_;
  size_t reached_ = 0;  ///< positions that have been written since the caches held nothing
  Logits last_;
  std::vector<int64_t> ids_, positions_;
  std::vector<host::Output> outputs_;
  uint64_t generation_ = 0;
};

class Generation {
 public:
  /// The next token; false at the end, and when something fails.
  bool next(Token* token, Failure* failure) { return advance(failure) && choose(token, failure); }
  /// The two halves of next(): the logits for the next token, which may be changed; and the token.
  bool advance(Failure* failure);
  bool choose(Token* token, Failure* failure);
  const Logits& logits() const { return session_->last_; }
  void cancel() { done_ = true; }
  bool done() const { return done_; }
  const Statistics& statistics() const { return statistics_; }

 private:
  friend class Session;
  Generation(std::shared_ptr<Session> session, std::vector<int32_t> ids, const GenerateOptions& options);
  bool current(Failure* failure) const;

  std::shared_ptr<Session> session_;
  std::vector<int32_t> prompt_, answer_;
  GenerateOptions options_;
  Sampler sampler_;
  StopStrings stops_;
  std::unique_ptr<Grammar> grammar_;
  std::unique_ptr<DecodeStream> stream_;
  std::vector<uint8_t> mask_;
  uint64_t number_ = 0;
  bool done_ = false;
  double began_ = 0;
  Statistics statistics_;
};

}  // namespace llm
}  // namespace etir
