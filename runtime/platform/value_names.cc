#include "platform/value_names.h"

#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

namespace etir {
namespace host {

namespace {

/// A JSON value. Members of objects keep their order; `text` is of strings, and of numbers as they are written.
struct Json {
  enum Kind { Null, Bool, Number, String, Array, Object };
  Kind kind = Null;
  bool boolean = false;
  std::string text;
  std::vector<Json> items;                            // of arrays
  std::vector<std::pair<std::string, Json>> members;  // of objects

  const Json* find(const char* key) const {
    const Json* found = nullptr;
    for (const auto& member : members) {
      if (member.first == key) found = &member.second;  // the last one counts
    }
    return found;
  }
};

/// Reads JSON text. Files may hold anything, so depth is limited.
class JsonReader {
 public:
  explicit JsonReader(StringView text) : at_(text.data), end_(text.data + text.size) {}

  /// False when the whole text is no value.
  bool read(Json* value) {
    if (!read_value(value, kDeepest)) return false;
    skip_space();
    return at_ == end_;
  }

 private:
  static constexpr int kDeepest = 400;
  static constexpr uint32_t kReplacement = 0xFFFD;

  void skip_space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\n' || *at_ == '\r')) ++at_;
  }
  bool take(char expected) {
    skip_space();
    if (at_ == end_ || *at_ != expected) return false;
    ++at_;
    return true;
  }
  bool take_word(const char* word) {
    const size_t size = std::strlen(word);
    if (static_cast<size_t>(end_ - at_) < size || std::memcmp(at_, word, size) != 0) return false;
    at_ += size;
    return true;
  }

  bool read_value(Json* value, int depth) {
    skip_space();
    if (at_ == end_ || depth == 0) return false;
    switch (*at_) {
      case '{':
        return read_object(value, depth);
      case '[':
        return read_array(value, depth);
      case '"':
        value->kind = Json::String;
        return read_string(&value->text);
      case 'n':
        return take_word("null");
      case 't':
      case 'f':
        value->kind = Json::Bool;
        value->boolean = *at_ == 't';
        return take_word(value->boolean ? "true" : "false");
      default:
        return read_number(value);
    }
  }

  bool read_array(Json* value, int depth) {
    value->kind = Json::Array;
    ++at_;
    if (take(']')) return true;
    do {
      value->items.emplace_back();
      if (!read_value(&value->items.back(), depth - 1)) return false;
    } while (take(','));
    return take(']');
  }

  bool read_object(Json* value, int depth) {
    value->kind = Json::Object;
    ++at_;
    if (take('}')) return true;
    do {
      value->members.emplace_back();
      skip_space();
      if (at_ == end_ || *at_ != '"' || !read_string(&value->members.back().first)) return false;
      if (!take(':') || !read_value(&value->members.back().second, depth - 1)) return false;
    } while (take(','));
    return take('}');
  }

  bool read_number(Json* value) {
    const char* start = at_;
    while (at_ != end_ && (std::strchr("+-.eE", *at_) != nullptr || (*at_ >= '0' && *at_ <= '9')) && *at_ != 0) ++at_;
    value->kind = Json::Number;
    value->text.assign(start, at_);
    char* end = nullptr;
    std::strtod(value->text.c_str(), &end);
    return !value->text.empty() && *end == 0;
  }

  bool read_hex(uint32_t* code) {
    if (end_ - at_ < 4) return false;
    *code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char* digits = "0123456789abcdef";
      const char lower = *at_ >= 'A' && *at_ <= 'F' ? static_cast<char>(*at_ - 'A' + 'a') : *at_;
      const char* digit = lower == 0 ? nullptr : std::strchr(digits, lower);
      if (digit == nullptr) return false;
      *code = *code * 16 + static_cast<uint32_t>(digit - digits);
    }
    return true;
  }

  bool read_escape(std::string* text) {
    if (at_ == end_) return false;
    const char* kinds = "\"\\/bfnrt";
    const char* values = "\"\\/\b\f\n\r\t";
    const char kind = *at_++;
    if (kind != 'u') {
      const char* found = kind == 0 ? nullptr : std::strchr(kinds, kind);
      if (found == nullptr) return false;
      *text += values[found - kinds];
      return true;
    }
    uint32_t code = 0, low = 0;
    if (!read_hex(&code)) return false;
    const bool is_high = code >= 0xD800 && code < 0xDC00;
    if (is_high && take_word("\\u")) {
      if (!read_hex(&low)) return false;
      if (low >= 0xDC00 && low < 0xE000) {
        append_utf8(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00), text);
        return true;
      }
      append_utf8(kReplacement, text);
      code = low;
    }
    // Half of a pair is no character.
    if (code >= 0xD800 && code < 0xE000) code = kReplacement;
    append_utf8(code, text);
    return true;
  }

  static void append_utf8(uint32_t code, std::string* text) {
    const auto add = [&](uint32_t byte) { *text += static_cast<char>(byte); };
    if (code < 0x80) return add(code);
    if (code < 0x800) {
      add(0xC0 | code >> 6);
    } else if (code < 0x10000) {
      add(0xE0 | code >> 12);
      add(0x80 | (code >> 6 & 0x3F));
    } else {
      add(0xF0 | code >> 18);
      add(0x80 | (code >> 12 & 0x3F));
      add(0x80 | (code >> 6 & 0x3F));
    }
    add(0x80 | (code & 0x3F));
  }

  bool read_string(std::string* text) {
    ++at_;
    while (at_ != end_ && *at_ != '"') {
      const unsigned char byte = static_cast<unsigned char>(*at_++);
      if (byte < 0x20) return false;
      if (byte != '\\') {
        *text += static_cast<char>(byte);
      } else if (!read_escape(text)) {
        return false;
      }
    }
    return at_ != end_ && *at_++ == '"';
  }

  const char* at_;
  const char* end_;
};

/// A node of the tree of containers. A key without text is a place: the value is numbered there.
struct Node {
  bool is_leaf = true;
  std::string type;
  std::vector<Node> children;
  std::vector<std::pair<bool, std::string>> keys;  // (whether it is a name, its text); empty where all are numbered
};
constexpr int kDeepestTree = 100;

bool is_dict(const std::string& type) {
  return type == "builtins.dict" || type == "collections.OrderedDict" || type == "collections.defaultdict";
}

bool key_of(const Json& json, std::pair<bool, std::string>* key) {
  *key = {json.kind != Json::Null, json.text};
  if (json.kind == Json::Bool) key->second = json.boolean ? "True" : "False";
  return json.kind != Json::Array && json.kind != Json::Object;
}

/// The list of names that a context is or holds; null when there is none.
const Json* names_in(const std::string& type, const Json& context) {
  if (type == "collections.defaultdict") return context.kind == Json::Object ? context.find("dict_context") : nullptr;
  if (context.kind != Json::Array) return nullptr;
  if (is_dict(type)) return &context;
  // Dataclasses that torch registered have a list of the fields that are None besides.
  const bool is_pair =
      context.items.size() == 2 && context.items[0].kind == Json::Array && context.items[1].kind == Json::Array;
  return is_pair ? &context.items[0] : &context;
}

bool read_keys(const Json& spec, const Json& context, Node* node) {
  const Json* names = spec.find("names");
  const bool given = names != nullptr && names->kind != Json::Null;
  const bool needed = given || is_dict(node->type);
  Json parsed;
  const Json* plain = &context;
  if (!given) {
    if (context.kind == Json::String) {
      const StringView text = {context.text.data(), context.text.size()};
      if (!JsonReader(text).read(&parsed)) return !needed;
      plain = &parsed;
    }
    names = names_in(node->type, *plain);
  }
  const bool fits = names != nullptr && names->kind == Json::Array && names->items.size() == node->children.size();
  if (!fits) return !needed;
  std::vector<std::pair<bool, std::string>> keys(names->items.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!needed && names->items[i].kind != Json::String) return true;
    if (!key_of(names->items[i], &keys[i])) return false;
  }
  node->keys = std::move(keys);
  return true;
}

bool read_node(const Json& spec, Node* node, int depth) {
  const Json *type = spec.find("type"), *context = spec.find("context"), *children = spec.find("children_spec");
  if (spec.kind != Json::Object || type == nullptr || context == nullptr) return false;
  if (type->kind == Json::Null) return true;
  if (depth == 0 || children == nullptr || children->kind != Json::Array) return false;
  node->is_leaf = false;
  node->type = type->text;
  node->children.resize(children->items.size());
  for (size_t i = 0; i < node->children.size(); ++i) {
    if (!read_node(children->items[i], &node->children[i], depth - 1)) return false;
  }
  return read_keys(spec, *context, node);
}

bool read_tree(StringView text, Node* root) {
  Json json;
  if (text.data == nullptr || !JsonReader(text).read(&json) || json.kind != Json::Array || json.items.size() != 2) {
    return false;
  }
  return json.items[0].kind == Json::Number && json.items[0].text == "1" &&
         read_node(json.items[1], root, kDeepestTree);
}

/// Names of leaves: the keys on the way, made different by numbers at their ends.
class LeafNames {
 public:
  /// `prefix` comes before a way that starts with a number.
  explicit LeafNames(const char* prefix) : prefix_(prefix) {}

  void add(const Node& node) {
    if (node.is_leaf) return add_leaf();
    for (size_t i = 0; i < node.children.size(); ++i) {
      const bool is_named = !node.keys.empty() && node.keys[i].first;
      path_.emplace_back(is_named, is_named ? node.keys[i].second : std::to_string(i));
      add(node.children[i]);
      path_.pop_back();
    }
  }
  /// The names, if there are so many.
  std::vector<std::string> take(size_t count) {
    return names_.size() == count ? std::move(names_) : std::vector<std::string>(count);
  }

 private:
  void add_leaf() {
    bool has_key = false;
    std::string base = path_.empty() || path_[0].first ? "" : prefix_;
    for (size_t i = 0; i < path_.size(); ++i) {
      has_key |= path_[i].first;
      if (i > 0 || !path_[0].first) base += "_";
      base += path_[i].second;
    }
    if (!has_key) return names_.emplace_back(), void();
    std::string name = base;
    for (int number = 1; !taken_.insert(name).second; ++number) name = base + "_" + std::to_string(number);
    names_.push_back(name);
  }

  const std::string prefix_;
  std::vector<std::pair<bool, std::string>> path_;  // (whether it is a name, its text)
  std::set<std::string> taken_;
  std::vector<std::string> names_;
};

std::vector<std::string> names_of(const Node& root, size_t count, const char* prefix) {
  LeafNames names(prefix);
  names.add(root);
  return names.take(count);
}

}  // namespace

std::vector<std::string> input_names(const MethodMeta& meta) {
  const size_t count = meta.num_inputs();
  Node root;
  const bool known = read_tree(meta.input_encoding(), &root) && root.children.size() == 2 &&
                     root.children[0].type == "builtins.tuple" &&
                     (root.children[1].type == "builtins.dict" || root.children[1].type == "collections.OrderedDict");
  if (!known) return std::vector<std::string>(count);
  // Positional and keyword arguments side by side.
  Node arguments;
  arguments.is_leaf = false;
  for (Node& part : root.children) {
    part.keys.resize(part.children.size());
    for (size_t i = 0; i < part.children.size(); ++i) {
      arguments.children.push_back(std::move(part.children[i]));
      arguments.keys.push_back(std::move(part.keys[i]));
    }
  }
  return names_of(arguments, count, "input");
}

std::vector<std::string> output_names(const MethodMeta& meta) {
  const size_t count = meta.num_outputs();
  Node root;
  if (!read_tree(meta.output_encoding(), &root)) return std::vector<std::string>(count);
  return names_of(root, count, "output");
}

}  // namespace host
}  // namespace etir
