#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

#include "harness/failure.hpp"
#include "harness/record_fields.hpp"
#include "harness/suite.hpp"

namespace parity {
namespace {

// Gives every field of a record a value of its own; two items in every list.
class Filler {
 public:
  template <class T>
  void operator()(const char*, T& value) {
    fill(value);
  }

 private:
  void fill(bool& v) { v = !v; }
  void fill(std::string& v) { v = std::string("text\0", 5) + std::to_string(++n_); }
  void fill(double& v) {
    constexpr double kOdd[] = {std::numeric_limits<double>::infinity(), -0.0, 5e-324,
                               std::numeric_limits<double>::quiet_NaN()};
    ++n_;
    v = n_ % 7 == 0 ? kOdd[n_ / 7 % 4] : 1.0 / n_;
  }
  template <class T>
  requires std::is_integral_v<T>
  void fill(T& v) { v = static_cast<T>(++n_); }
  template <class T>
  void fill(std::vector<T>& v) {
    v.resize(2);
    for (T& item : v) fill(item);
  }
  template <class V>
  void fill(std::map<std::string, V>& v) {
    std::string key;
    for (int i = 0; i < 2; ++i) fill(key), fill(v[key]);
  }
  template <class T>
  void fill(std::optional<T>& v) {
    fill(v.emplace());
  }
  template <class T>
  requires(std::is_class_v<T>) void fill(T& record) { fields(*this, record); }
  int n_ = 0;
};

// Writes every field as text, so that two records can be compared independently of the wire.
class Printer {
 public:
  template <class T>
  void operator()(const char* name, T& value) {
    text += std::string(name) + "=";
    print(value);
    text += ";";
  }
  std::string text = {};

 private:
  void print(std::string& v) { text += v; }
  template <class T>
  requires std::is_arithmetic_v<T>
  void print(T& v) {
    char line[64];
    std::snprintf(line, sizeof line, "%a", static_cast<double>(v));
    text += line;
  }
  template <class T>
  void print(std::vector<T>& v) {
    for (T& item : v) print(item), text += ",";
  }
  template <class V>
  void print(std::map<std::string, V>& v) {
    for (auto& [key, value] : v) text += key + ":", print(value), text += ",";
  }
  template <class T>
  void print(std::optional<T>& v) {
    if (v)
      print(*v);
    else
      text += "none";
  }
  template <class T>
  requires(std::is_class_v<T>) void print(T& record) {
    text += "{";
    fields(*this, record);
    text += "}";
  }
};

std::string printed(CaseRecord record) {
  Printer printer;
  fields(printer, record);
  return printer.text;
}

CaseRecord full_record() {
  CaseRecord record;
  Filler filler;
  fields(filler, record);
  return record;
}

TEST(Wire, CarriesEveryField) {
  const CaseRecord record = full_record();
  const std::string wire = to_wire(record);
  const CaseRecord back = from_wire(wire);
  EXPECT_EQ(printed(back), printed(record));
  EXPECT_NE(printed(back), printed(CaseRecord{}));
  EXPECT_EQ(to_wire(back), wire);
  EXPECT_EQ(printed(from_wire(to_wire(CaseRecord{}))), printed(CaseRecord{}));
}

TEST(Wire, RefusesEveryTruncation) {
  const std::string wire = to_wire(full_record());
  for (std::size_t n = 0; n < wire.size(); ++n)
    EXPECT_THROW(from_wire(std::string_view(wire).substr(0, n)), Failure)
        << n << " of " << wire.size();
  EXPECT_THROW(from_wire(wire + "x"), Failure);
}

TEST(Wire, NeverCrashesOnDamage) {
  const std::string wire = to_wire(full_record());
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bad = wire;
    for (std::size_t k = 0; k <= random() % 4; ++k)
      bad[random() % bad.size()] = static_cast<char>(random());
    try {
      const CaseRecord record = from_wire(bad);
      EXPECT_LE(record.tensors.size(), bad.size());
    } catch (const Failure&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace parity
