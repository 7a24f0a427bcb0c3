// The command line's grammar: the only file that includes CLI11.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <functional>

#include "harness/build_info.hpp"
#include "harness/cli/arguments.hpp"
#include "harness/cli/help.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/cli/values.hpp"
#include "harness/cli/verb.hpp"
#include "harness/failure.hpp"
#include "harness/text.hpp"

namespace parity::cli {
namespace {

std::function<std::string(const std::string&)> in_range(const Option& declared) {
  return [least = declared.least, most = declared.most](const std::string& text) -> std::string {
    double value = 0;
    if (!CLI::detail::lexical_cast(text, value)) return "";  // says so itself
    if (least <= value && value <= most) return "";
    return fmt::format("{} is not from {} to {}", text, least, most);
  };
}

struct Cli {
  Arguments& args;
  CLI::App app{kAbout, "parity"};
  std::vector<std::pair<CLI::App*, std::function<int(const Arguments&)>>> verbs = {};

  // `path` is the verb with the one above it: "golden info".
  CLI::App* verb(CLI::App& parent, const std::string& path, int (*call)(const Arguments&)) {
    return verb(parent, path, help_of(path), call);
  }
  CLI::App* verb(CLI::App& parent, const std::string& path, const Help& help,
                 int (*call)(const Arguments&)) {
    CLI::App* sub = parent.add_subcommand(path.substr(path.rfind(' ') + 1), help.what);
    sub->footer(std::string("\nExamples\n") + help.examples);
    sub->allow_extras();  // unknown flags are refused below, with the nearest spelling
    if (call) verbs.emplace_back(sub, call);
    for (const Option& more : options_beside(path)) option(sub, more);
    return sub;
  }

  void option(CLI::App* sub, const Option& declared) {
    CLI::Option* made = std::visit(
        [&](auto* to) {
          if constexpr (std::is_same_v<decltype(to), bool*>)
            return sub->add_flag(declared.names, *to, declared.what);
          else
            return sub->add_option(declared.names, *to, declared.what);
        },
        declared.to);
    const bool word = declared.names[0] != '-';
    if (declared.most_words) made->expected(declared.required ? 1 : 0, declared.most_words);
    if (*declared.type) made->type_name(declared.type);
    if (declared.required) made->required();
    if (!declared.words.empty()) made->check(CLI::IsMember(declared.words));
    if (std::isfinite(declared.least) || std::isfinite(declared.most))
      made->check(in_range(declared));
    if (!word && std::holds_alternative<std::vector<std::string>*>(declared.to))
      made->allow_extra_args(false);
    if (std::holds_alternative<int*>(declared.to) || std::holds_alternative<double*>(declared.to) ||
        std::holds_alternative<std::int64_t*>(declared.to))
      made->capture_default_str();
  }
  void registered(CLI::App& parent, const Verb& declared) {
    CLI::App* sub =
        verb(parent, declared.path, Help{declared.what, declared.examples}, declared.call);
    for (const Option& each : declared.options) option(sub, each);
    if (declared.shared.selection && !declared.shared.cases) selection(sub);
    if (declared.shared.cases) cases(sub);
    if (declared.shared.candidate) candidate(sub);
    if (declared.shared.execution) execution(sub);
    if (declared.shared.dumps) dumps(sub);
    if (declared.shared.folder) folder(sub);
    if (declared.shared.output) output(sub);
  }

  void selection(CLI::App* sub) {
    sub->add_option("ids", args.names, "Ids or globs of cases; none: every case of the lane")
        ->type_name("ID");
    sub->add_option("--only", args.only,
                    "Keep what matches this glob over ids with their kernels, as 'kda/*@*_bf16'")
        ->type_name("GLOB")
        ->allow_extra_args(false);
    sub->add_option("--from", args.from,
                    "Ids from a file, one a line; '#' comments; a line "
                    "'--from OTHER' nests")
        ->type_name("FILE")
        ->allow_extra_args(false);
    sub->add_option("--lane", args.lane,
                    "smoke (seconds), full, sweep (full with rotating seeds), long; default: the "
                    "smallest that has a case for each glob")
        ->type_name("LANE");
    sub->add_option("--kernel", args.kernel, "Only kernels that match this glob")
        ->type_name("NAME");
    sub->add_option("--device", args.device,
                    "host, or the number of a CUDA device: only kernels that run there")
        ->type_name("N|host");
    sub->add_option("--seed", args.seed,
                    "Add this to every declared seed; in the sweep lane the day is added otherwise")
        ->type_name("N")
        ->check(is_seed);
  }
  void cases(CLI::App* sub) {
    selection(sub);
    sub->add_option("--direction", args.direction, "forward, backward or both")
        ->type_name("WORD")
        ->capture_default_str();
    sub->add_option("--check", args.check,
                    "Only cases of this check: parity, bitwise, exact, sharded, recording, golden")
        ->type_name("WORD");
    sub->add_option("--start", args.start, "Begin with this case; those before it are left out")
        ->type_name("ID");
    sub->add_option("--shard", args.shard, "The I-th of N equal parts of the cases")
        ->type_name("I/N");
    sub->add_option("--repeat", args.repeat,
                    "Launch each kernel N times and compare the results bit for bit")
        ->type_name("N")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    sub->add_flag(
        "--bitwise", args.bitwise,
        "Judge the claims of bit equality (repeats, splits, chunks, batches) on the chosen cases");
  }
  void candidate(CLI::App* sub) {
    sub->add_option("--fault", args.fault,
                    "Switch this fault of the kernels on (`parity list --json` has them): what the "
                    "report says of a defect that is known")
        ->type_name("ID");
    sub->add_option("--exec", args.exec,
                    "Judge this command instead of kernels: it reads its inputs from {in} and "
                    "writes its results to {out} (.safetensors; {in.npz}, {out.h5} for others)")
        ->type_name("COMMAND");
    sub->add_option("--contract", args.contract,
                    "What the command of --exec promises: f32, f64, or a contract of the op's "
                    "kernels; default: the op's own for the data type")
        ->type_name("NAME");
  }
  void execution(CLI::App* sub) {
    sub->add_option("-j,--jobs", args.jobs, "Cases at a time; 0: one per core")
        ->type_name("N")
        ->check(CLI::Range(0, 4096));
    sub->add_option("--timeout-per-case", args.timeout_s,
                    "A candidate that takes longer is an error of its own")
        ->type_name("S")
        ->check(is_seconds)
        ->capture_default_str();
    sub->add_option("--memory-per-case", args.memory_mib, "Address space of a case")
        ->type_name("MIB")
        ->check(CLI::Range(64, 1 << 24))
        ->capture_default_str();
    sub->add_flag("--isolate,!--no-isolate", args.isolate,
                  "Each case in a child process (the default); --no-isolate is for debuggers");
  }
  void folder(CLI::App* sub) {
    sub->add_option(
           "--out", args.out,
           "Folder of the run; an existing one needs --resume or --force. Default: parity-out, "
           "where the run before moves to parity-out.old")
        ->type_name("DIR");
    sub->add_flag("--resume", args.resume,
                  "Continue the run in the folder: finished cases are kept");
    sub->add_flag("--force", args.force, "Replace the run in the folder");
  }
  void dumps(CLI::App* sub) {
    sub->add_option(
           "--dump", args.dump,
           "Cases whose inputs, truth, base and candidate are written to dumps/ as HDF5: all, "
           "failed or none")
        ->type_name("WHICH")
        ->check(CLI::IsMember({"all", "failed", "none"}))
        ->capture_default_str();
    sub->add_option("--dump-limit", args.dump_limit,
                    "No further dump once those of this run take so much")
        ->type_name("BYTES")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
  }
  void output(CLI::App* sub) {
    sub->add_flag("--json", args.json, "One JSON document on stdout, nothing else");
    sub->add_flag("-q,--quiet", args.quiet, "No progress on stderr");
    sub->add_flag("-v,--verbose", args.verbose,
                  "Everything at full length; the id of a case before it runs");
  }

  explicit Cli(Arguments& arguments) : args(arguments) {
    app.footer(kMore);
    app.set_help_all_flag("--help-all", "Help of every verb");
    app.set_version_flag("--version",
                         fmt::format("parity {} ({})", build_info().version, build_info().commit));

    CLI::App* sub = verb(app, "list", list);
    selection(sub);
    sub->add_flag("--support", args.support, "Which kernel takes which case on this machine");
    sub->add_flag("--coverage", args.coverage, "What is covered, and what is not");
    output(sub);

    sub = verb(app, "show", show);
    sub->add_option("id", args.names, "Id of a case, with or without a kernel")->type_name("ID");
    sub->add_option("--checkpoint", args.checkpoint,
                    "What a checkpoint holds: a file of tensors, a folder or the index of shards")
        ->type_name("PATH");
    sub->add_option("--model", args.model,
                    "k3 or debug: what that model would miss in the checkpoint or has too much")
        ->type_name("NAME");
    output(sub);

    sub = verb(app, "run", run);
    cases(sub);
    candidate(sub);
    sub->add_option("--recording", args.recordings,
                    "Judge the candidates stored in this file instead of launching kernels")
        ->type_name("FILE")
        ->allow_extra_args(false);
    execution(sub);
    dumps(sub);
    folder(sub);
    output(sub);

    sub = verb(app, "diff", diff);
    sub->add_option("files", args.names,
                    "A and B: .safetensors (or the *.safetensors.index.json of shards), .npz, "
                    ".npy, .h5, .pt, or folders of them")
        ->type_name("FILE")
        ->required()
        ->expected(2);
    sub->add_option("--truth", args.truth,
                    "A third file: errors of A and B against it; B passes where it is no further "
                    "from it than twice as far as A, or as the rounding to its format")
        ->type_name("FILE");
    sub->add_option("--bound", args.bound,
                    "Accept |B - A| up to this, in units of the RMS of A (with --truth: A and B "
                    "each against it)")
        ->type_name("X")
        ->check(CLI::NonNegativeNumber);
    sub->add_option("--rename", args.renames,
                    "Names that match the whole pattern are called otherwise, on every side; '*' "
                    "stands for anything, as '_orig_mod.*=*'")
        ->type_name("PATTERN=REPLACEMENT")
        ->allow_extra_args(false);
    output(sub);

    sub = verb(app, "mutate", mutate);
    sub->add_option("--lane", args.lane, "Cases that the mutants meet: smoke, full, long")
        ->type_name("LANE");
    sub->add_option("--only", args.only, "Keep mutants or ids that match this glob")
        ->type_name("GLOB")
        ->allow_extra_args(false);
    sub->add_option("--clean", args.clean, "Clean variants to judge, at least")
        ->type_name("N")
        ->check(CLI::NonNegativeNumber);
    execution(sub);
    output(sub);

    sub = verb(app, "gate", gate);
    sub->add_option("--lane", args.lane, "smoke, full (contains smoke) or long")->type_name("LANE");
    execution(sub);
    dumps(sub);
    folder(sub);
    output(sub);

    sub = verb(app, "registry", write_registry);
    sub->group("");  // hidden: a step of the build
    sub->add_option("--write", args.write, "")->required();

    CLI::App* golden = verb(app, "golden", nullptr);
    golden->require_subcommand(1);
    golden_verbs(*golden);
    for (const Verb& declared : registered_verbs())
      registered(std::string_view(declared.path).starts_with("golden ") ? *golden : app, declared);
  }

  void golden_verbs(CLI::App& golden) {
    CLI::App* sub = verb(golden, "golden freeze", golden_freeze);
    selection(sub);
    sub->add_option("--file", args.file, "The golden file to write")->type_name("FILE")->required();
    sub->add_flag("--contiguous", args.contiguous,
                  "No chunks, no compression: larger, and as fast to read as the disk");
    sub->add_flag("--force", args.force, "Replace an existing file");

    sub = verb(golden, "golden verify", golden_verify);
    sub->add_option("files", args.names, "Golden files, from anywhere")
        ->type_name("FILE")
        ->required();
    CLI::Option* kernel =
        sub->add_option("--kernel", args.kernel, "Judge this kernel too")->type_name("NAME");
    CLI::Option* only = sub->add_option("--only", args.only, "Keep what matches this glob")
                            ->type_name("GLOB")
                            ->allow_extra_args(false);
    sub->add_flag("--digests", args.digests,
                  "Only that the files are whole, by the manifest or the digests that they carry; "
                  "nothing is computed")
        ->excludes(kernel)
        ->excludes(only);
    execution(sub);
    output(sub);

    sub = verb(golden, "golden diff", golden_diff);
    sub->add_option("files", args.names, "The older and the newer file")
        ->type_name("FILE")
        ->required()
        ->expected(2);
    output(sub);

    verb(golden, "golden manifest", golden_manifest);
    sub = verb(golden, "golden info", golden_info);
    sub->add_option("files", args.names, "Golden files")->type_name("FILE")->required();
    output(sub);
  }
};

std::vector<std::string> words_of(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::App* sub :
       app.get_subcommands([](const CLI::App* s) { return !s->get_group().empty(); }))
    words.push_back(sub->get_name());
  return words;
}

std::string near_hint(std::string_view word, const std::vector<std::string>& known) {
  const std::string near = nearest(word, known);
  return near.empty() ? "" : fmt::format("; did you mean '{}'?", near);
}

// The word that stands where a verb belongs must be one.
void check_verb(const CLI::App& app, const std::string& path, int argc, char** argv, int at) {
  const std::vector<std::string> known = words_of(app);
  if (at >= argc)
    throw UsageError(fmt::format("{}: a verb is missing ({})", path, fmt::join(known, ", ")));
  const std::string word = argv[at];
  if (word.starts_with("-")) return;
  const auto is_it = [&](const CLI::App* sub) { return sub->get_name() == word; };
  if (app.get_subcommands(is_it).empty())
    throw UsageError(fmt::format("{}: no verb '{}'{} (verbs: {})", path, word,
                                 near_hint(word, known), fmt::join(known, ", ")));
}

// A flag whose value is empty is most often an unset variable of a script: it asks for nothing.
void refuse_empty_values(const CLI::App& sub, const std::string& path) {
  for (const CLI::Option* option : sub.get_options())
    for (const std::string& value : option->results())
      if (value.empty() && option->get_items_expected_max() > 0)
        throw UsageError(fmt::format("{}: {} is empty", path, option->get_name()));
}

void refuse_extras(const CLI::App& sub, const std::string& path) {
  const std::vector<std::string> extras = sub.remaining();
  if (extras.empty()) return;
  const auto flag = std::ranges::find_if(
      extras, [](const std::string& word) { return word.size() > 1 && word[0] == '-'; });
  if (flag == extras.end())
    throw UsageError(fmt::format("{}: unexpected '{}'", path, extras.front()));
  std::vector<std::string> known;
  for (const CLI::Option* option : sub.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  const std::string word = flag->substr(0, flag->find('='));
  throw UsageError(fmt::format("{}: unknown flag '{}'{}", path, word, near_hint(word, known)));
}

}  // namespace

int dispatch(int argc, char** argv) {
  Arguments args;
  args.command = "parity";
  for (int i = 1; i < argc; ++i) args.command += " " + shell_word(argv[i]);
  Cli cli(args);
  if (argc < 2) {
    fmt::print(stderr, "{}", cli.app.help());
    return 2;
  }
  check_verb(cli.app, "parity", argc, argv, 1);
  if (std::string_view(argv[1]) == "golden")
    check_verb(*cli.app.get_subcommand("golden"), "parity golden", argc, argv, 2);
  try {
    cli.app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return cli.app.exit(help);
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}: {}", args.command, error.what()));
  }
  for (const auto& [sub, call] : cli.verbs) {
    if (!sub->parsed()) continue;
    args.verb = sub->get_name();
    refuse_extras(*sub, "parity " + args.verb);
    refuse_empty_values(*sub, "parity " + args.verb);
    if (!args.lane.empty()) parse_lane(args.lane);  // also where no case is asked for
    return call(args);
  }
  throw UsageError("parity: a verb is missing");
}

}  // namespace parity::cli
