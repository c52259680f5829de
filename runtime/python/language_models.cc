// Tokenizers, models and sessions for llm/tokenizer.py and llm/session.py, which are what users see.
//
// A failure becomes what `failure` of llm/errors.py makes of its number and its text. They are in this module and not
// in one of their own because of the kernels: a second module would bring all of them along again.
#include "python/language_models.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "llm/chat.h"
#include "llm/regex.h"
#include "llm/session.h"
#include "llm/text.h"
#include "llm/unicode.h"

namespace nb = nanobind;

namespace etir {
namespace {

using llm::Failure;

[[noreturn]] void raise(const Failure& failure) {
  const nb::object errors = nb::module_::import_("etir.llm.errors");
  nb::object exception =
      errors.attr("failure")(static_cast<int>(failure.cause),
                             nb::steal(PyUnicode_DecodeUTF8(
                                 failure.message.data(), static_cast<Py_ssize_t>(failure.message.size()), "replace")));
  PyErr_SetObject(reinterpret_cast<PyObject*>(exception.ptr()->ob_type), exception.ptr());
  throw nb::python_error();
}

nb::object text_of(const std::string& text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

/// A str as UTF-8; halves of surrogate pairs, which a str may hold, become U+FFFD.
std::string utf8_of(nb::handle text) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (data != nullptr) return std::string(data, static_cast<size_t>(size));
  PyErr_Clear();
  const nb::object bytes = text.attr("encode")("utf-16-le", "surrogatepass").attr("decode")("utf-16-le", "replace");
  data = PyUnicode_AsUTF8AndSize(bytes.ptr(), &size);
  if (data == nullptr) throw nb::python_error();
  return std::string(data, static_cast<size_t>(size));
}

using Tokenizer = llm::Tokenizer;

class PythonStream {
 public:
  PythonStream(std::shared_ptr<const Tokenizer> tokenizer, bool skip)
      : tokenizer_(std::move(tokenizer)), stream_(tokenizer_->stream(skip)) {}
  nb::object push(int32_t id) { return text_of(stream_.push(id)); }
  nb::object flush() { return text_of(stream_.flush()); }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  llm::DecodeStream stream_;
};

class PythonTokenizer {
 public:
  explicit PythonTokenizer(std::shared_ptr<const Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}
  explicit PythonTokenizer(nb::bytes json) {
    Failure failure;
    const std::string_view text(json.c_str(), json.size());
    {
      const nb::gil_scoped_release release;
      tokenizer_ = Tokenizer::parse(text, &failure);
    }
    if (tokenizer_ == nullptr) raise(failure);
  }
  std::vector<int32_t> encode(nb::str text, bool add_special_tokens, bool parse_special) const {
    const std::string bytes = utf8_of(text);
    std::vector<int32_t> ids;
    Failure failure;
    {
      const nb::gil_scoped_release release;
      tokenizer_->encode(bytes, {add_special_tokens, parse_special}, &ids, &failure);
    }
    if (!failure.ok()) raise(failure);
    return ids;
  }
  nb::object decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const {
    return text_of(tokenizer_->decode(ids, skip_special_tokens));
  }
  PythonStream stream(bool skip_special_tokens) const { return PythonStream(tokenizer_, skip_special_tokens); }
  int32_t size() const { return tokenizer_->vocabulary_size(); }
  int32_t id_of(nb::str token) const { return tokenizer_->id_of(utf8_of(token)); }
  nb::object token_of(int32_t id) const {
    const std::string* token = tokenizer_->token_of(id);
    return token == nullptr ? nb::object(nb::none()) : text_of(*token);
  }
  bool is_special(int32_t id) const { return tokenizer_->is_special(id); }
  nb::bytes bytes_of(int32_t id) const {
    const std::string bytes = tokenizer_->bytes_of(id);
    return nb::bytes(bytes.data(), bytes.size());
  }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
};

/// Calls something that may take long, without the interpreter's lock.
template <typename Function>
auto unlocked(Function function) {
  Failure failure;
  decltype(function(&failure)) result;
  {
    const nb::gil_scoped_release release;
    result = function(&failure);
  }
  if (!failure.ok()) raise(failure);
  return result;
}

nb::object array_of(std::vector<float>&& values, size_t rows, size_t columns) {
  auto* kept = new std::vector<float>(std::move(values));
  const nb::capsule owner(kept, [](void* data) noexcept { delete static_cast<std::vector<float>*>(data); });
  return nb::cast(nb::ndarray<nb::numpy, float>(kept->data(), {rows, columns}, owner));
}

class PythonGeneration {
 public:
  explicit PythonGeneration(std::shared_ptr<llm::Generation> generation) : generation_(std::move(generation)) {}
  /// (id, text, finish), or None at the end. `on_logits` is given the logits, which it may change.
  nb::object next(nb::handle on_logits) {
    if (generation_->done()) return nb::none();
    if (!unlocked([this](Failure* failure) { return generation_->advance(failure); })) return nb::none();
    if (!on_logits.is_none()) {
      const llm::Logits& logits = generation_->logits();
      auto* kept = new std::shared_ptr<void>(logits.owner);
      const nb::capsule keep(kept, [](void* data) noexcept { delete static_cast<std::shared_ptr<void>*>(data); });
      on_logits(nb::ndarray<nb::numpy, float>(logits.values, {logits.count}, keep));
    }
    llm::Token token;
    if (!unlocked([&](Failure* failure) { return generation_->choose(&token, failure); })) return nb::none();
    static constexpr const char* kFinish[] = {nullptr, "stop", "stop_string", "length", "context"};
    const char* finish = kFinish[static_cast<int>(token.finish)];
    return nb::make_tuple(token.id, text_of(token.text),
                          finish == nullptr ? nb::object(nb::none()) : nb::object(nb::str(finish)));
  }
  void cancel() { generation_->cancel(); }
  nb::tuple statistics() const {
    const llm::Statistics& s = generation_->statistics();
    return nb::make_tuple(s.prompt_tokens, s.reused_tokens, s.generated_tokens, s.prefill_seconds, s.decode_seconds,
                          s.first_token_seconds);
  }

 private:
  std::shared_ptr<llm::Generation> generation_;
};

class PythonSession {
 public:
  explicit PythonSession(std::shared_ptr<llm::Session> session) : session_(std::move(session)) {}
  std::vector<int32_t> tokens() const {
    const nb::gil_scoped_release release;
    return session_->tokens();
  }
  void prefill(const std::vector<int32_t>& ids) {
    unlocked([&](Failure* failure) { return session_->prefill(ids, failure); });
  }
  nb::object logits(const std::vector<int32_t>& ids) {
    std::vector<float> rows;
    unlocked([&](Failure* failure) { return session_->logits(ids, &rows, failure); });
    return array_of(std::move(rows), ids.size(), static_cast<size_t>(session_->model()->vocabulary_size()));
  }
  void rewind(int64_t count) {
    unlocked([&](Failure* failure) { return session_->rewind(count, failure); });
  }
  void save(const std::string& path) {
    unlocked([&](Failure* failure) { return session_->save(path, failure); });
  }
  void restore(const std::string& path) {
    unlocked([&](Failure* failure) { return session_->restore(path, failure); });
  }
  PythonGeneration* generate(std::vector<int32_t> ids, double temperature, int32_t top_k, double top_p, double min_p,
                             double penalty, int32_t window, uint64_t seed, int64_t max_tokens,
                             std::vector<std::string> stop, bool json) {
    llm::GenerateOptions options;
    options.sampling = {temperature, top_k, top_p, min_p, penalty, window, seed};
    options.max_tokens = max_tokens;
    options.stop = std::move(stop);
    options.json = json;
    return new PythonGeneration(
        unlocked([&](Failure* failure) { return session_->generate(std::move(ids), options, failure); }));
  }

 private:
  std::shared_ptr<llm::Session> session_;
};

class PythonLanguageModel {
 public:
  PythonLanguageModel(const std::string& path, nb::object tokenizer_json, const std::vector<int64_t>& eos_ids,
                      int threads, const std::string& isa, bool trusted) {
    llm::LanguageModel::Options options;
    if (!tokenizer_json.is_none()) {
      const nb::bytes bytes = nb::cast<nb::bytes>(tokenizer_json);
      options.tokenizer_json.assign(bytes.c_str(), bytes.size());
    }
    options.eos_ids = eos_ids;
    options.runtime.threads = threads;
    options.runtime.isa = isa;
    if (trusted) options.runtime.native = NativeCode::Policy::Trusted;
    model_ = unlocked([&](Failure* failure) { return llm::LanguageModel::load(path, options, failure); });
  }
  PythonSession* session() {
    return new PythonSession(unlocked([&](Failure* failure) { return model_->session(failure); }));
  }
  nb::object tokenizer() const {
    if (model_->tokenizer() == nullptr) return nb::none();
    return nb::cast(new PythonTokenizer(model_->tokenizer()), nb::rv_policy::take_ownership);
  }
  /// (context, tokens of a piece, vocabulary, logits of every position, eos ids)
  nb::tuple contract() const {
    return nb::make_tuple(model_->context(), model_->prefill_piece(), model_->vocabulary_size(),
                          model_->every_position(), nb::cast(model_->eos_ids()));
  }
  nb::tuple memory() const { return nb::make_tuple(model_->file_bytes(), model_->session_bytes()); }
  const std::string& isa() const { return model_->isa(); }

 private:
  std::shared_ptr<llm::LanguageModel> model_;
};

/// Begins and ends, in bytes of UTF-8, of the matches of a pattern. For tests.
std::vector<std::pair<size_t, size_t>> find_pattern(nb::str pattern, nb::str text, bool multiline) {
  return unlocked([&](Failure* failure) {
    std::vector<std::pair<size_t, size_t>> found;
    const nb::gil_scoped_acquire acquire;
    const auto regex = llm::Regex::compile(utf8_of(pattern), multiline, failure);
    std::vector<llm::Regex::Match> matches;
    if (regex != nullptr) regex->find_all(utf8_of(text), &matches, failure);
    for (const auto& match : matches) found.emplace_back(match.begin, match.end);
    return found;
  });
}

/// The prompt of messages (role, content), as an application without Python renders it.
nb::object render_chat(nb::bytes json, const std::vector<std::pair<std::string, std::string>>& rows, bool generate) {
  const std::string text = unlocked([&](Failure* failure) {
    std::vector<llm::Message> messages;
    for (const auto& [role, content] : rows) messages.push_back({role, content});
    std::string prompt;
    const auto chat = llm::Chat::parse(std::string_view(json.c_str(), json.size()), failure);
    if (chat != nullptr) chat->render(messages, generate, &prompt, failure);
    return prompt;
  });
  return text_of(text);
}

nb::object normalize(nb::str text, bool compatible, bool compose) {
  return text_of(llm::to_utf8(llm::normalize(llm::code_points(utf8_of(text)), compatible, compose)));
}

}  // namespace

void define_language_models(nb::module_& module) {
  nb::class_<PythonStream>(module, "TokenStream").def("push", &PythonStream::push).def("flush", &PythonStream::flush);
  nb::class_<PythonTokenizer>(module, "Tokenizer")
      .def(nb::init<nb::bytes>())
      .def("encode", &PythonTokenizer::encode)
      .def("decode", &PythonTokenizer::decode)
      .def("stream", &PythonTokenizer::stream)
      .def_prop_ro("size", &PythonTokenizer::size)
      .def("id_of", &PythonTokenizer::id_of)
      .def("token_of", &PythonTokenizer::token_of)
      .def("is_special", &PythonTokenizer::is_special)
      .def("bytes_of", &PythonTokenizer::bytes_of);
  nb::class_<PythonGeneration>(module, "Generation")
      .def("next", &PythonGeneration::next, nb::arg("on_logits").none())
      .def("cancel", &PythonGeneration::cancel)
      .def_prop_ro("statistics", &PythonGeneration::statistics);
  nb::class_<PythonSession>(module, "Session")
      .def_prop_ro("tokens", &PythonSession::tokens)
      .def("prefill", &PythonSession::prefill)
      .def("logits", &PythonSession::logits)
      .def("rewind", &PythonSession::rewind)
      .def("save", &PythonSession::save)
      .def("restore", &PythonSession::restore)
      .def("generate", &PythonSession::generate, nb::rv_policy::take_ownership);
  nb::class_<PythonLanguageModel>(module, "LanguageModel")
      .def(nb::init<const std::string&, nb::object, const std::vector<int64_t>&, int, const std::string&, bool>(),
           nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg())
      .def("session", &PythonLanguageModel::session, nb::rv_policy::take_ownership)
      .def_prop_ro("tokenizer", &PythonLanguageModel::tokenizer)
      .def_prop_ro("contract", &PythonLanguageModel::contract)
      .def_prop_ro("memory", &PythonLanguageModel::memory)
      .def_prop_ro("isa", &PythonLanguageModel::isa);
  module.def("find_pattern", &find_pattern);
  module.def("normalize", &normalize);
  module.def("render_chat", &render_chat);
}

}  // namespace etir
