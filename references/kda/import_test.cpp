// Stored cases in the op's own terms; what cannot be read says why.
#include "references/kda/import.hpp"

#include <gtest/gtest.h>

#include "harness/failure.hpp"
#include "references/kda/problem.hpp"

namespace parity::kda {
namespace {

struct Stored {
  StoredCase stored;
  std::map<std::string, Tensor> tensors;

  void add(const std::string& path, std::vector<Dim> dims, Dtype dtype = Dtype::F64) {
    tensors[path] = make_tensor({.name = path, .dtype = dtype, .dims = std::move(dims)});
    stored.paths.push_back(path);
  }
  ImportedCase import() {
    stored.read = [this](const std::string& path) { return tensors.at(path); };
    return import_case(stored);
  }
};

Stored packed() {
  Stored s;
  s.stored.name = "x";
  s.stored.attributes = {{"B", "1"},
                         {"T", "6"},
                         {"H", "1"},
                         {"HV", "2"},
                         {"K", "4"},
                         {"V", "3"},
                         {"N", "3"},
                         {"varlen", "1"},
                         {"gate_variant", "lower_bound"},
                         {"use_gate_in_kernel", "1"},
                         {"lower_bound", "-3.0"},
                         {"scale", "0.5"},
                         {"use_qk_l2norm_in_kernel", "1"},
                         {"l2norm_eps", "1e-06"},
                         {"use_beta_sigmoid_in_kernel", "1"},
                         {"beta_scale", "2.0"}};
  s.add("inputs/q", {{"a", 1}, {"b", 6}, {"c", 1}, {"d", 4}});
  s.add("inputs/k", {{"a", 24}});
  s.add("inputs/v", {{"a", 36}});
  s.add("inputs/g_raw", {{"a", 48}});
  s.add("inputs/A_log", {{"a", 2}});
  s.add("inputs/beta_logit", {{"a", 12}});
  s.add("inputs/initial_state", {{"a", 72}});
  s.add("inputs/cu_seqlens", {{"a", 4}}, Dtype::I64);
  s.add("cotangents/o", {{"a", 36}});
  s.add("outputs/o", {{"a", 36}});
  s.add("outputs/g", {{"a", 48}});
  s.add("grads/A_log", {{"a", 2}});
  const std::int64_t cu[] = {0, 2, 2, 6};
  std::copy(std::begin(cu), std::end(cu),
            s.tensors["inputs/cu_seqlens"].as<std::int64_t>().begin());
  return s;
}

TEST(Import, ReadsOptionsAndSizes) {
  Stored s = packed();
  const ImportedCase c = s.import();
  ASSERT_EQ(c.unsupported, "");
  EXPECT_EQ(c.problem.sizes.str(), "B1,T2+0+4,H1,HV2,K4,V3");
  EXPECT_EQ(c.problem.options.str(), "beta=neg,gate=lower,h0=1,l2norm=1,lb=-3,taps=1");
  EXPECT_EQ(c.results,
            (std::map<std::string, std::string>{
                {"o", "outputs/o"}, {"g", "outputs/g"}, {"grads/A_log", "grads/A_log"}}));
  EXPECT_EQ(letters(c.inputs.at("A_log").spec.dims, 1), "hv=1");
}

TEST(Import, SaysWhatItDoesNotKnow) {
  const auto with = [](const std::string& key, const std::string& value) {
    Stored s = packed();
    s.stored.attributes[key] = value;
    return s.import().unsupported;
  };
  EXPECT_NE(with("gate_variant", "cubic"), "");
  EXPECT_NE(with("l2norm_eps", "1e-3"), "");
  EXPECT_NE(with("gate_variant", "lower_bound_no_A"), "");  // with A_log among its inputs
}

TEST(Import, RefusesBrokenFiles) {
  Stored sizes = packed();
  sizes.stored.attributes["T"] = "many";
  EXPECT_THROW((void)sizes.import(), Failure);
  Stored offsets = packed();
  offsets.tensors["inputs/cu_seqlens"].as<std::int64_t>()[1] = 5;  // 0, 5, 2, 6
  EXPECT_THROW((void)offsets.import(), Failure);
  Stored shape = packed();
  shape.tensors["inputs/v"] = make_tensor({.name = "v", .dtype = Dtype::F64, .dims = {{"a", 35}}});
  EXPECT_THROW((void)shape.import(), Failure);
}

TEST(Problem, RefusesWhatHasNoMeaning) {
  const auto refused = [](const char* sizes, const char* options) {
    return refuses({.op = "kda", .sizes = Sizes::parse(sizes), .options = Options::parse(options)});
  };
  EXPECT_EQ(refused("B1,T4,H2,HV4,K3,V2", "gate=lower,bias=1"), "");
  for (const auto& [sizes, options] : {std::pair{"B1,T4,H2,HV3,K3,V2", ""},
                                       {"B2,T4+1,H1,K3,V2", ""},
                                       {"B1,T4,H1,K3,V2", "bias=1"},
                                       {"B1,T4,H1,K3,V2", "gate=fast"},
                                       {"B1,T4,H1,K3,V2", "headwise=1,beta=sigmoid"},
                                       {"B1,T4,H1,K3,V2", "gate=lower,lb=1"},
                                       {"B1,T4,H1,K3,V2", "spam=1"},
                                       {"B1,T4,H1,K3,V2", "unused=1"},
                                       {"B1,T4,H1,K3,V2", "grad=0,dht=1"}})
    EXPECT_NE(refused(sizes, options), "") << sizes << " " << options;
}

}  // namespace
}  // namespace parity::kda
