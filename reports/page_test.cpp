// The page, JUnit and Markdown: well-formed whatever the ids, within their limits, and whole
// without a network.
#include "reports/page.hpp"

#include <gtest/gtest.h>
#include <set>

#include "reports/reports.hpp"
#include "reports/sample_test.hpp"
#include "reports/words.hpp"

namespace parity::reports {
namespace {

using test::markup_error;
using test::occurrences;
using test::sample_case;
using test::sample_run;
using test::unpacked;

RunFolder hostile_run() {
  RunFolder folder = sample_run(4, true);
  const std::string nasty =
      "</script><script>alert(1)</script>\"'&<img src=x onerror=alert(1)>|`\n\x01\xFF";
  for (CaseRecord& record : folder.cases) {
    record.id = nasty + record.id;
    record.op = record.kernel = record.fill = record.reason = record.repro = record.contract =
        record.sizes_text = nasty;
    for (TensorRecord& tensor : record.tensors) {
      tensor.name = tensor.dtype = tensor.pattern = tensor.bound_why = tensor.role = nasty;
      tensor.axes = {nasty};
      for (ViewResult& view : tensor.views) view.detail = nasty;
      for (Heatmap& map : tensor.heatmaps) map.rows = map.cols = nasty;
      for (AxisProfile& profile : tensor.profiles) profile.axis = nasty;
    }
  }
  for (MutantRecord& mutant : folder.mutants)
    mutant.id = mutant.what = mutant.reason = mutant.case_id = nasty;
  folder.run.command = folder.run.commit = nasty;
  folder.run.host["cpu"] = nasty;
  folder.complaints = {{nasty, 5}};
  return folder;
}

TEST(MarkupChecker, SeesWhatIsBroken) {
  EXPECT_EQ(markup_error("<a x=\"1>2\"><br><b>t</b>&amp;</a>"), "");
  EXPECT_NE(markup_error("<a><b></a></b>"), "");
  EXPECT_NE(markup_error("<a>"), "");
  EXPECT_NE(markup_error("<a>1 < 2</a>"), "");
  EXPECT_NE(markup_error("<a>R & D and more</a>"), "");
}

TEST(Page, IsWellFormed) {
  for (const RunFolder& folder : {sample_run(30, true), sample_run(30, false), RunFolder{}}) {
    const std::string page = html(folder);
    EXPECT_EQ(markup_error(page), "");
    EXPECT_EQ(markup_error(unpacked(page)), "");
  }
}

TEST(Page, EscapesHostileIds) {
  const std::string text = unpacked(html(hostile_run()));
  EXPECT_EQ(markup_error(text), "");
  EXPECT_EQ(occurrences(text, "<script>"), 1);
  EXPECT_EQ(text.find("<img"), std::string::npos);
}

TEST(Page, NeedsNoNetwork) {
  const std::string text = unpacked(html(sample_run(10, true)));
  for (const char* word :
       {"http:", "https:", "src=", "@import", "url(", "<link", "fetch(", "XMLHttp"})
    EXPECT_EQ(text.find(word), std::string::npos) << word;
}

// Values of an attribute, in order.
std::vector<std::string> values_of(const std::string& text, const std::string& attribute) {
  std::vector<std::string> values;
  for (std::size_t at = text.find(attribute + "=\""); at != std::string::npos;
       at = text.find(attribute + "=\"", at)) {
    at += attribute.size() + 2;
    values.push_back(text.substr(at, text.find('"', at) - at));
  }
  return values;
}

TEST(Page, EveryLinkLeadsSomewhere) {
  const std::string text = unpacked(html(sample_run(60, true)));
  std::set<std::string> ids;
  for (const std::string& id : values_of(text, " id"))
    EXPECT_TRUE(ids.insert(id).second) << "twice: " << id;
  const std::vector<std::string> links = values_of(text, "href");
  for (std::string target : links) {
    for (std::size_t i = 0; (i = target.find('%', i)) != std::string::npos; ++i)
      target.replace(i, 3, 1, static_cast<char>(std::stoi(target.substr(i + 1, 2), nullptr, 16)));
    EXPECT_TRUE(ids.contains(target.substr(1))) << target;
  }
  EXPECT_GT(links.size(), 60U);
}

TEST(Page, StaysUsableWithManyCases) {
  const RunFolder folder = sample_run(1500, true);
  const std::string page = html(folder), text = unpacked(page);
  EXPECT_LT(page.size(), std::size_t{4} << 20);
  EXPECT_EQ(occurrences(text, "<details class=\"case\""), folder.cases.size());
  EXPECT_NE(text.find("<svg"), std::string::npos);
  EXPECT_NE(page.find("<details class=\"case\""), std::string::npos);  // troubles are not packed
}

TEST(Page, FailuresInFullEvenWhenThereIsNoRoomForAll) {
  RunFolder folder = sample_run(0, true);
  for (int i = 0; i < 150; ++i)
    folder.cases.push_back(sample_case("kda", "kda.f32", "f32", "B2,T256", "peak", 5, true,
                                       static_cast<std::uint64_t>(i + 200)));
  const std::string page = html(folder), text = unpacked(page);
  EXPECT_LT(page.size(), std::size_t{6} << 20);
  EXPECT_EQ(occurrences(text, "<details class=\"case\""), folder.cases.size());
  EXPECT_GT(occurrences(page, "worst points"), 20U);  // the first ones need no script
  EXPECT_GT(occurrences(text, "worst points"), occurrences(page, "worst points"));
}

TEST(Page, SaysWhatTheVerdictIs) {
  EXPECT_NE(html(sample_run(3, false)).find("<h1 class=\"pass\">Pass</h1>"), std::string::npos);
  EXPECT_NE(html(sample_run(3, true)).find("<h1 class=\"fail\">Fail</h1>"), std::string::npos);
  EXPECT_NE(html({}).find("<h1 class=\"unproven\">Not proven</h1>"), std::string::npos);
}

TEST(Junit, IsWellFormedAndCounts) {
  const std::string text = junit(sample_run(10, true));
  EXPECT_EQ(markup_error(text), "");
  EXPECT_NE(
      text.find(R"(<testsuites name="parity" tests="18" failures="2" errors="3" skipped="2")"),
      std::string::npos)
      << text.substr(0, 300);
  EXPECT_EQ(occurrences(text, "<testcase "), 18);
  EXPECT_EQ(occurrences(text, "<failure "), 2);
  EXPECT_EQ(occurrences(text, "<error "), 3);
  EXPECT_EQ(occurrences(text, "<skipped "), 2);
  EXPECT_NE(text.find("type=\"crash\""), std::string::npos);
  EXPECT_NE(text.find("message=\"unsupported: needs sm_90: no CUDA device\""), std::string::npos);
}

TEST(Junit, EscapesHostileIds) {
  const std::string text = junit(hostile_run());
  EXPECT_EQ(markup_error(text), "");
  for (const char c : text)
    EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t');
  EXPECT_EQ(text.find('\xFF'), std::string::npos);
}

TEST(Markdown, SaysWhatFailedAndFits) {
  RunFolder folder = sample_run(10, true);
  const std::string text = markdown(folder);
  EXPECT_EQ(text.find("# parity: exit 1, a kernel disagrees with the truth"), 0U);
  EXPECT_NE(
      text.find(
          "**10 pass, 2 fail, 1 unproven, 1 unsupported, 2 error, 1 waived, 1 expected fail**"),
      std::string::npos);
  EXPECT_NE(text.find("`parity run 'kda/B2,T256,H4,K64,V64/bf16/gate_floor/gate=lower_bound"),
            std::string::npos)
      << text;
  folder.cases.resize(
      20000, sample_case("kda", "kda.f32", "f32", std::string(400, 'B'), "peak", 5, false, 1));
  const std::string large = markdown(folder);
  EXPECT_LT(large.size(), std::size_t{1} << 20);
  EXPECT_NE(large.find("more are in the page"), std::string::npos);
  EXPECT_NE(large.find("## Proof that the gate can fail"),
            std::string::npos);  // what follows the rows is not lost
}

TEST(Markdown, HostileIdsStayInTheirCells) {
  const std::string text = markdown(hostile_run());
  std::string prose;  // what stands outside of code, where '<' means something
  bool code = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '`' && (at == 0 || text[at - 1] != '\\'))
      code = !code;
    else if (!code)
      prose += text[at];
  }
  EXPECT_EQ(prose.find("<script"), std::string::npos);
  EXPECT_EQ(prose.find("<img"), std::string::npos);
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const std::size_t bars = occurrences(line, "|") - occurrences(line, "\\|");
    if (line.starts_with("|---"))
      columns = bars;
    else if (line.starts_with("|") && columns)
      EXPECT_EQ(bars, columns) << line;
    else
      columns = 0;
  }
}

}  // namespace
}  // namespace parity::reports
