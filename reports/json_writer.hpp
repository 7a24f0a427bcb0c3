// Writes JSON text, in the order of the calls. Floats are shortest-round-trip; NaN and infinities
// are the strings "nan", "inf", "-inf", since JSON has no word for them. Bytes that are no UTF-8
// become U+FFFD, so that any id gives a valid document.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace parity::reports {

class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);
  JsonWriter& null();
  JsonWriter& raw(std::string_view json);  // text that is JSON already

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(double number);
  JsonWriter& value(bool truth);
  template <std::signed_integral T>
  JsonWriter& value(T number) {
    return raw(std::to_string(number));
  }
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) JsonWriter& value(T number) {
    return raw(std::to_string(number));
  }
  template <class T>
  JsonWriter& value(const std::vector<T>& list) {
    begin_array();
    for (const auto& item : list) value(item);
    return end_array();
  }
  template <class T>
  JsonWriter& value(const std::map<std::string, T>& map) {
    begin_object();
    for (const auto& [name, item] : map) field(name, item);
    return end_object();
  }
  template <class T>
  JsonWriter& value(const std::optional<T>& maybe) {
    return maybe ? value(*maybe) : null();
  }

  template <class T>
  JsonWriter& field(std::string_view name, const T& item) {
    return key(name).value(item);
  }

  const std::string& text() const { return text_; }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();
  void quote(std::string_view text);

  std::string text_ = {};
  bool first_ = true;  // nothing stands yet in the innermost object or array
  bool after_key_ = false;
};

// Bytes that are no UTF-8 replaced by U+FFFD; shared by every output that declares UTF-8.
std::string valid_utf8(std::string_view text);

}  // namespace parity::reports
