#include "cli/command_line.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>

#include "cli/proc_settings.h"
#include "cli/restart_settings.h"
#include "cli/selector.h"
#include "common/base/did_you_mean.h"
#include "common/wire/frame.h"
#include "common/base/quantity.h"

namespace meshbus::cli {
namespace {

constexpr const char* kIntroduction =
    "meshbus launches, addresses and supervises meshes of processes over many hosts.\n"
    "\n"
    "  meshbus run -n 4 -- sh -c 'echo hello from $RANK of $WORLD_SIZE'\n"
    "  meshbus run --hosts 2 --per-host gpus=4 -- ./train.sh\n"
    "  meshbus host &                  # a standing host; then: meshbus run --hosts ADDRESS -- ...";

constexpr const char* kRunFooter =
    "The command comes last, after --. Each rank gets RANK, LOCAL_RANK, WORLD_SIZE, NODE_RANK, MASTER_ADDR, MASTER_PORT,\n"
    "MESHBUS_RANK_<AXIS>, MESHBUS_SIZE_<AXIS> and MESHBUS_RESTARTS. When a rank fails, the others are stopped and the first failure is\n"
    "named. With --restart that is the first one that is not answered by a new life; the others are told as they come.\n"
    "\n"
    "Exit code: 0; that of the first failing rank, or 128 + its signal; 124 --timeout ran out; 125 meshbus itself failed; 126 the\n"
    "command cannot be executed; 127 it was not found; 130 Ctrl-C; 141 nobody reads the output; 143\n"
    "SIGTERM, or somebody else stopped the ranks; 2 wrong usage.";

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (;;) {
    const auto end = text.find(at, begin);
    if (end != begin && begin < text.size()) parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

CLI::Validator duration_form() {
  return CLI::Validator(
      [](std::string& text) { return parse_duration(text) ? std::string() : "'" + text + "' is not a duration like 250ms, 30s, 2m or 1h"; },
      "DURATION");
}

/// An option that takes a duration.
template <typename Target>
CLI::Option* add_duration(CLI::App* app, const std::string& name, Target& target, const std::string& meaning) {
  return app->add_option_function<std::string>(
                name, [&target](const std::string& text) { target = *parse_duration(text); }, meaning)
      ->check(duration_form())
      ->type_name("DURATION");
}

void add_host(CLI::App& app, HostArguments& arguments) {
  auto& options = arguments.warden;
  auto* host = app.add_subcommand("host", "Serve this machine as a host: start procs for launchers, watch them, leave nothing behind");
  host->add_option("--bind", options.binds,
                   "Address to listen on besides the unix socket: tcp:HOST:PORT (needs keys, see meshbus keygen, or --insecure)")
      ->type_name("ADDRESS");
  host->add_option("--advertise", options.advertise,
                   "Address that others use for this host; default: the unix socket, or the tcp address bound")
      ->type_name("ADDRESS");
  auto* insecure = host->add_flag("--insecure", options.insecure, "Plain tcp, without keys: whoever can connect can run commands as you");
  auto* join = host->add_option("--join", arguments.joins,
                                "Make keys for this host and be known to the host at ADDRESS and know whom it knows, before anything else; "
                                "- reads that from stdin; may be given again (meshbus keygen --token)");
  join->type_name("TOKEN@ADDRESS")->allow_extra_args(false)->excludes(insecure);
  host->add_option("--run-dir", options.run_dir, "Where sockets are made; default $XDG_RUNTIME_DIR/meshbus or /tmp/meshbus-UID");
  add_duration(host, "--grace", options.grace, "Between SIGTERM and SIGKILL of the procs when this host ends; default 10s");
  host->add_option_function<std::string>(
          "--containment",
          [&options](const std::string& word) {
            options.containment = word == "cgroup"  ? Containment::cgroup
                                  : word == "pidns" ? Containment::pid_namespace
                                  : word == "sweep" ? Containment::sweep
                                                    : Containment::automatic;
          },
          "How descendants are kept together: auto, cgroup (v2), pidns (a pid namespace), sweep")
      ->check(CLI::IsMember({"auto", "cgroup", "pidns", "sweep"}));
  host->add_flag("--end-on-broker-loss", options.end_on_broker_loss, "End this host when its broker dies, instead of starting another one");
  host->add_option("--set", options.settings, "A setting for broker and agent: KEY=VALUE")->type_name("KEY=VALUE");
  host->add_option("--ready-fd", options.ready_fd, "Descriptor to write one JSON line to when the host is ready, or could not start");
  host->add_option("--lifeline-fd", options.lifeline_fd,
                   "Descriptor whose end means that the launcher is gone: the host then ends within 2 s");
  host->add_flag("--remote", arguments.is_remote,
                 "For launchers that start a host on another machine: what it needs comes on stdin, it ends when stdin does")
      ->excludes(join);
  host->add_flag_callback("--quiet", [&options] { options.print_ready = false; }, "Do not print the ready line on stdout");
}

/// How CLI11 wants to be told of a bad value.
template <typename Value>
void store(Result<Value> parsed, const std::string& flag, Value& value) {
  if (!parsed) throw CLI::ValidationError(flag, parsed.error().detail());
  value = std::move(*parsed);
}

void add_proc_settings(CLI::App& verb, ProcSettings& settings) {
  verb.add_option("--nice", settings.nice, "Nice value of the procs: -20 (first) to 19 (last)")->check(CLI::Range(-20, 19));
  verb.add_option_function<std::string>(
          "--umask",
          [&settings](const std::string& text) {
            unsigned value = 0;
            store(parse_umask(text), "--umask", value);
            settings.umask = value;
          },
          "File mode creation mask of the procs, octal")
      ->type_name("OCTAL");
  verb.add_option_function<std::string>(
          "--cpu-set", [&settings](const std::string& text) { store(parse_cpu_set(text), "--cpu-set", settings.cpus); },
          "CPUs that the procs may run on: 0-3,8")
      ->type_name("LIST");
  verb.add_option_function<std::string>(
          "--memory", [&settings](const std::string& text) { store(parse_memory(text), "--memory", settings.memory_limit.emplace()); },
          "Memory and swap of each proc and its descendants: 512MiB; who passes it is killed")
      ->type_name("BYTES");
  verb.add_option_function<std::string>(
          "--cpus", [&settings](const std::string& text) { store(parse_cpus(text), "--cpus", settings.cpu_limit.emplace()); },
          "CPU time of each proc and its descendants, in CPUs: 1.5")
      ->type_name("NUMBER");
  verb.add_option("--pids", settings.pids_limit, "Processes and threads that each proc and its descendants may be")
      ->check(CLI::Range(1, 4'194'304))
      ->type_name("N");
  verb.add_option_function<std::vector<std::string>>(
          "--rlimit",
          [&settings](const std::vector<std::string>& texts) {
            for (const auto& text : texts) store(parse_rlimit(text), "--rlimit", settings.limits.emplace_back());
          },
          "A limit of each proc: core=0, nofile=1024, as=2G, cpu=60, or SOFT:HARD; `unlimited` for none")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
}

/// Ways to say which hosts are meant.
void add_hosts(CLI::App& verb, HostsSaid& said, const std::string& meaning, const std::string& type) {
  const auto add = [&verb](const std::string& flag, std::string& target, const std::string& words, const std::string& type_name) {
    return verb
        .add_option_function<std::string>(
            flag,
            [&target, flag](const std::string& text) {
              // An empty variable in a script must not become a default.
              if (text.empty()) throw CLI::ValidationError(flag, "is empty");
              target = text;
            },
            words)
        ->type_name(type_name);
  };
  auto* list = add("--hosts", said.list, meaning, type);
  auto* file = add("--hostfile", said.file, "Hosts from a file: a list like that of --hosts on each line, # begins a comment", "FILE");
  file->excludes(list);
  add("--context", said.context, "Hosts, and the settings to come to them, from meshbus context add", "NAME")
      ->excludes(list)
      ->excludes(file);
}

void add_size(CLI::App& verb, std::optional<std::uint64_t>& all, std::optional<Extent>& per_host) {
  auto* total = verb.add_option("-n,--procs", all, "Ranks in all, spread over the hosts in blocks; default 1 per host")
                    ->check(CLI::Range(1, 1'000'000))
                    ->type_name("N");
  verb.add_option_function<std::string>(
          "--per-host",
          [&per_host](const std::string& text) {
            auto extent = Extent::parse(text);
            if (!extent) throw CLI::ValidationError("--per-host", extent.error().detail());
            per_host = std::move(*extent);
          },
          "Ranks on each host as labelled axes, like gpus=2 or numa=2,core=4")
      ->type_name("AXIS=SIZE,...")
      ->excludes(total);
}

void add_environment(CLI::App& verb, std::vector<std::pair<std::string, std::string>>& environment) {
  verb.add_option_function<std::vector<std::string>>(
          "-x",
          [&environment](const std::vector<std::string>& words) {
            for (const auto& word : words) {
              const auto equals = word.find('=');
              const auto name = word.substr(0, equals);
              if (name.empty()) throw CLI::ValidationError("-x", "takes NAME or NAME=VALUE, not '" + word + "'");
              const char* own = std::getenv(name.c_str());
              if (equals == std::string::npos && own == nullptr)
                throw CLI::ValidationError("-x", name + " is not set here: give it a value, -x " + name + "=VALUE");
              environment.emplace_back(name, equals == std::string::npos ? own : word.substr(equals + 1));
            }
          },
          "An environment variable for the ranks: NAME (with the value it has here) or NAME=VALUE")
      ->type_name("NAME[=VALUE]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_restart(CLI::App& verb, RestartPolicy& policy) {
  const auto add = [&verb](const std::string& name, const std::string& meaning, const std::string& type, auto take) {
    return verb
        .add_option_function<std::string>(
            name,
            [name, take](const std::string& text) {
              if (const auto taken = take(text); !taken) throw CLI::ValidationError(name, taken.error().detail());
            },
            meaning)
        ->type_name(type);
  };
  auto* restart =
      add("--restart", "Start a rank anew when it fails, or ends at all: never (default), on-failure, always; :N = at most N times",
          "never|on-failure[:N]|always[:N]", [&policy](const std::string& text) { return parse_restart(text, policy); });
  add("--gang", "Which ranks then begin anew: one = that rank, all, rest = it and all after it; default one", "one|all|rest",
      [&policy](const std::string& text) -> Result<void> {
        const auto gang = parse_gang(text);
        if (!gang) return fail(gang.error());
        policy.gang = *gang;
        return {};
      })
      ->needs(restart);
  add("--restart-delay", "From an end to the new life, doubled each time up to MAX, less up to a quarter by chance; default 1s:30s",
      "TIME[:MAX]", [&policy](const std::string& text) { return parse_restart_delay(text, policy); })
      ->needs(restart);
  add_duration(&verb, "--restart-window", policy.window, "The N of --restart are within that time; default: the whole run")->needs(restart);
  add("--restart-codes", "Only these exit codes (128 + signal) are answered by a new life", "CODE,...",
      [&policy](const std::string& text) -> Result<void> {
        auto codes = parse_codes(text);
        if (!codes) return fail(codes.error());
        policy.codes = std::move(*codes);
        return {};
      })
      ->needs(restart);
}

void add_kind(CLI::App& verb, bool& mesh, std::uint32_t& procs_per_process) {
  auto* flag =
      verb.add_flag("--mesh", mesh,
                    "The program links the library: a rank is ready when it has said hello; one that exits with 0 before has failed (125)");
  verb.add_option("--procs-per-process", procs_per_process, "With --mesh: so many consecutive ranks of a host share a process; default 1")
      ->check(CLI::Range(1, 60))
      ->needs(flag)
      ->type_name("N");
}

void add_run(CLI::App& app, RunArguments& run) {
  auto* verb = app.add_subcommand("run", "Run a command as a mesh of procs, show its output, and tell how it ended");
  verb->footer(kRunFooter);
  verb->prefix_command();
  add_hosts(*verb, run.said,
            "N hosts started on this machine (default 1), addresses of running hosts, tcp:h[1-4]:7420, or machines to start hosts on, "
            "ssh:h[1-4]; default: MESHBUS_HOSTS, else the nodes of this Slurm job, else the context in use",
            "N|ADDRESS,...|ssh:MACHINE,...");
  verb->add_option("--remote-program", run.remote_program, "Where meshbus is on other machines; default: found in PATH there")
      ->type_name("PATH");
  add_size(*verb, run.total, run.per_host);
  add_kind(*verb, run.mesh, run.procs_per_process);
  verb->add_option("--name", run.name, "Name of the mesh; default: that of the program");
  add_duration(verb, "--timeout", run.timeout, "Stop the ranks when they have run so long, exit 124");
  add_duration(verb, "--grace", run.grace, "Between SIGTERM and SIGKILL when ranks are stopped; default 10s");
  verb->add_flag("--keep-going", run.keep_going, "Let the other ranks go on when one fails");
  add_restart(*verb, run.restart);
  verb->add_flag("--no-prefix", run.no_prefix, "Show output as it is, without [name/host=0,proc=1] in front of each line");
  add_environment(*verb, run.environment);
  verb->add_option("--stdin", run.input, "Who reads stdin: a rank (default 0), all, or none")
      ->check([](const std::string& word) {
        const bool number = !word.empty() && word.size() < 10 &&
                            std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
        return number || word == "all" || word == "none" ? std::string() : "takes a rank, all or none, not '" + word + "'";
      })
      ->type_name("RANK|all|none");
  verb->add_option("--json", run.json, "Write a report of all ranks to this file ('-' is stdout)")->type_name("FILE");
  verb->add_flag("--report", run.report, "At the end, say how long the stages of the launch took, and which ranks were slowest");
  verb->add_option("--trace", run.trace, "Write the launch as a trace for Perfetto or chrome://tracing to this file")->type_name("FILE");
  verb->add_option("--containment", run.containment, "For hosts started here: auto, cgroup (v2), pidns (a pid namespace), sweep")
      ->check(CLI::IsMember({"auto", "cgroup", "pidns", "sweep"}));
  verb->add_option("--set", run.settings, "A setting: KEY=VALUE")->type_name("KEY=VALUE");
  add_proc_settings(*verb, run.proc_settings);
}

constexpr const char* kLogsFooter =
    "Lines longer than 64 KiB are cut and marked [N bytes cut]. A reader that is slower than the ranks write slows nobody: what it\n"
    "missed is marked [N bytes missed]. --raw shows exact bytes, without prefixes and marks.\n"
    "\n"
    "--fold: a line that several ranks wrote is shown once, as [0-5,7] text. The lines shown with a rank, read from top to bottom,\n"
    "are exactly the lines that this rank wrote to that stream, in order: lines are only brought together where that keeps the order\n"
    "of every rank. Of the lines that may come next, one that no other rank says later goes first, else the oldest. With -f a line\n"
    "waits 200 ms for the same line of other ranks; without, until the end. 4 MiB wait at most.\n"
    "\n"
    "Exit code: 0; 1 no such mesh or rank, or a host that does not answer; 2 wrong usage; 130 Ctrl-C; 141 nobody reads the output.";

constexpr const char* kWhyFooter =
    "TARGET is a mesh (train, train-13Se1Maqzryj), a rank of the last mesh (3), or a proc (train_3-13Se1Maqzryj); default: the mesh that\n"
    "something happened to last. What all began with comes first, then what followed from it. Hosts remember as much as\n"
    "events.size allows, in their run directory, or in logs.directory when that is set.\n"
    "\n"
    "Exit code: 0; 1 no such mesh or rank, or a host that does not answer; 2 wrong usage; 125 meshbus itself failed.";

void add_ranks(CLI::App& verb, RankSet& ranks) {
  verb.add_option_function<std::string>(
          "--rank",
          [&ranks](const std::string& text) {
            auto parsed = parse_ranks(text);
            if (!parsed) throw CLI::ValidationError("--rank", "takes ranks like 0-5,7, not '" + text + "'");
            ranks = std::move(*parsed);
          },
          "Only these ranks")
      ->type_name("RANKS");
}

CLI::App* add_on_hosts(CLI::App& app, const std::string& name, const std::string& meaning, HostsArguments& hosts,
                       const std::string& limit = "30s") {
  auto* verb = app.add_subcommand(name, meaning);
  add_hosts(
      *verb, hosts.said,
      "Addresses of hosts, ranges like tcp:h[1-4]:7420 among them; default: MESHBUS_HOSTS, else the context in use, else every host of "
      "yours on this machine",
      "ADDRESS,...");
  verb->add_flag("--json", hosts.json, "Print JSON");
  add_duration(verb, "--timeout", hosts.timeout, "Give up after that time; default " + limit);
  return verb;
}

constexpr const char* kSpawnFooter =
    "The command comes last, after --. The ranks run on, and a controller (meshbus-controller) keeps them alive: when it is gone, and\n"
    "not back before their lease lapses, they are stopped, or live on with --detach. meshbus logs NAME shows what they write, meshbus\n"
    "why NAME how they ended, meshbus stop NAME ends them.\n"
    "\n"
    "Exit code: 0 all ranks are up and the controller answers for them; 1 not, and nothing runs, or no controller takes them; 2 wrong\n"
    "usage.";

void add_spawn(CLI::App& app, SpawnArguments& spawn) {
  auto* verb = add_on_hosts(app, "spawn", "Start a command as a mesh of procs on running hosts, and leave it to a controller", spawn.hosts);
  verb->footer(kSpawnFooter);
  verb->add_option("NAME", spawn.name, "Name of the mesh")->required();
  add_size(*verb, spawn.total, spawn.per_host);
  add_kind(*verb, spawn.mesh, spawn.procs_per_process);
  add_duration(verb, "--grace", spawn.hosts.grace, "Between SIGTERM and SIGKILL when ranks are stopped; default 10s");
  verb->add_option("--controller", spawn.controller, "Host of the controller; default: the first of the hosts whose controller takes it")
      ->type_name("ADDRESS");
  verb->add_flag("--wait-for-controller", spawn.waits, "One that is not there yet, or is being restarted, may come, within --timeout");
  verb->add_flag("--detach", spawn.detach, "Let the ranks live on when their controller is gone for good");
  add_environment(*verb, spawn.environment);
  add_proc_settings(*verb, spawn.proc_settings);
}

constexpr const char* kControllerFooter = "Exit code: 0; 1 no controller, no such mesh, or it was not done; 2 wrong usage.";

void add_controller(CLI::App& app, ControllerArguments& controller) {
  using Verb = ControllerArguments::Verb;
  auto* verbs = app.add_subcommand("controller", "Show the controllers of hosts and their meshes; give a mesh to another one");
  verbs->require_subcommand(1);
  verbs->footer(kControllerFooter);
  const auto add_verb = [&](const char* name, Verb verb, const char* meaning) {
    auto* one = add_on_hosts(*verbs, name, meaning, controller.hosts, "10s");
    one->footer(kControllerFooter);
    one->callback([&controller, verb] { controller.verb = verb; });
    return one;
  };
  add_verb("list", Verb::list, "List the controllers of these hosts");
  add_verb("show", Verb::show, "Show the meshes that they watch, and who answers for each")
      ->add_option("MESH", controller.mesh, "Only this mesh, with or without its uuid");
  auto* handover = add_verb("handover", Verb::handover, "Give a mesh that a controller answers for, or nobody, to another controller");
  handover->add_option("MESH", controller.mesh, "Name of the mesh, with or without its uuid")->required();
  handover->add_option("--to", controller.to, "Host of the other controller; default: the first of the hosts whose controller takes it")
      ->type_name("ADDRESS");
  handover->add_flag("--wait-for-controller", controller.waits,
                     "One that is not there yet, or is being restarted, may come, within --timeout");
  handover->add_flag("--detach", controller.detach, "Let the ranks live on when that controller is gone for good");
}

void add_drain(CLI::App& app, HostsArguments& hosts) {
  auto* verb = add_on_hosts(app, "drain", "Stop procs and start no others until they have ended; the hosts stay", hosts);
  verb->add_option("MESH", hosts.mesh, "Name of the mesh, with or without its uuid; default: every mesh");
  verb->add_option("--owner", hosts.owner, "Only procs that this launcher answers for: OWNER in meshbus ps --json")
      ->type_name("ADDRESS,NAME");
  auto* hold = verb->add_flag("--hold", hosts.hold, "Go on refusing to start any, until --resume");
  auto* resume =
      verb->add_flag("--resume", hosts.resume, "End what --hold began, for the same MESH and --owner; stops nothing")->excludes(hold);
  verb->add_option("--reason", hosts.reason, "Told to whoever wants to start procs, and in the exit reports")->excludes(resume);
  add_duration(verb, "--grace", hosts.grace, "Between SIGTERM and SIGKILL; default 10s");
}

void add_status(CLI::App& app, HostsArguments& hosts) {
  auto* verb = add_on_hosts(app, "status", "Show how the ranks of meshes stand, or wait until they have got somewhere", hosts);
  verb->add_option("MESH", hosts.mesh, "Name of the mesh, with or without its uuid; default: every mesh");
  auto* const actor = verb->add_option("--actor", hosts.actor, "How the actors of that name stand")->type_name("NAME");
  verb->add_option_function<std::string>(
          "--wait",
          [&hosts](const std::string& word) {
            for (const auto kind : {Status::Kind::initializing, Status::Kind::running, Status::Kind::stopping, Status::Kind::stopped}) {
              std::string name(to_string(kind));
              name[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(name[0])));
              if (word == name) hosts.wait = kind;
            }
            if (!hosts.wait) throw CLI::ValidationError("--wait", "takes initializing, running, stopping or stopped, not '" + word + "'");
          },
          "Until every rank has got at least so far: initializing, running, stopping, stopped; for --timeout at most")
      ->type_name("STATUS")
      ->excludes(actor);
  verb->footer("Exit code: 0; 1 no such mesh, a host that does not answer, or, with --wait, a rank that did not get there or failed.");
}

void add_mesh(CLI::App& app, MeshArguments& mesh) {
  auto* verbs = app.add_subcommand("mesh", "Show, slice, group and merge meshes given as texts; needs no host");
  verbs->require_subcommand(1);
  const auto add = [&](const std::string& name, MeshArguments::Verb verb, const std::string& text, const std::string& meaning) {
    auto* one = verbs->add_subcommand(name, meaning);
    one->add_option(text, mesh.text)->required();
    one->add_flag("--json", mesh.json, "Print JSON");
    one->callback([&mesh, verb] { mesh.verb = verb; });
    return one;
  };
  add("show", MeshArguments::Verb::show, "REGION", "The ranks of a region as a grid: meshbus mesh show 'host=2/4,gpu=4/1'");
  add("ranks", MeshArguments::Verb::ranks, "REGION", "The base ranks of a region in order: meshbus mesh ranks '8+x=2/1,y=3/2'");
  // CLI11 2.4 takes no colon in the name of an argument.
  add("slice", MeshArguments::Verb::slice, "HOSTS",
      "A part of the hosts NAME:HOSTS@REGION: meshbus mesh slice 'm:local:1,local:2@host=2/1' host=1")
      ->add_option("SLICE", mesh.slices, "LABEL=INDEX or LABEL=[BEGIN]:[END][:STEP], applied left to right");
  add("group", MeshArguments::Verb::group, "REGION", "A region per coordinate of the axes before LABEL: meshbus mesh group 'x=2/2,y=2/1' y")
      ->add_option("LABEL", mesh.other)
      ->required();
  add("merge", MeshArguments::Verb::merge, "OVERLAY", "Two overlays in one, the second wins: meshbus mesh merge '0..5=A,5..10=B' '3..7=C'")
      ->add_option("WINNER", mesh.other)
      ->required();
}

void add_logs(CLI::App& app, LogsArguments& logs) {
  auto* verb = add_on_hosts(app, "logs", "Show what the ranks of a mesh wrote, also when they have ended", logs.hosts);
  verb->footer(kLogsFooter);
  verb->add_option("MESH", logs.mesh, "Name of the mesh, with or without its uuid; default: the only one there is");
  verb->add_flag("-f,--follow", logs.follow, "Go on with what they write from now on, until they have ended");
  verb->add_option_function<std::string>(
          "--tail",
          [&logs](const std::string& text) {
            const auto lines = parse_whole(text);
            if (!lines && text != "all") throw CLI::ValidationError("--tail", "takes a number of lines or all, not '" + text + "'");
            logs.tail = lines.value_or(UINT64_MAX);
          },
          "Last lines of each stream; all = all that is kept, in files too; default 100")
      ->type_name("N|all");
  add_ranks(*verb, logs.ranks);
  verb->add_flag("--stdout", logs.out, "Only stdout");
  verb->add_flag("--stderr", logs.err, "Only stderr");
  auto* fold = verb->add_flag("--fold", logs.fold, "Show a line that several ranks wrote once, with the ranks in front");
  verb->add_flag("--raw", logs.raw, "Exact bytes")->excludes(fold)->excludes(verb->get_option("--json"));
}

constexpr const char* kTalkFooter =
    "RANKS are those of a mesh, with or without its uuid, or of the only one that there is:\n"
    "  trainers                   all\n"
    "  trainers[0-5,7]            by number\n"
    "  trainers[host=1,gpu=0:4]   a slice: LABEL=INDEX or LABEL=[BEGIN]:[END][:STEP]\n"
    "  [0-5,7]   host=1,gpu=0:4   the same of the only mesh\n"
    "TO is a port of their programs; with --actor NAME a message, by name or number, for the actors of that name.\n"
    "\n"
    "Exit code: 0 (a cast: it is on its way; who is dead by then is not told of); 1 no such mesh or rank, a host or, with call, a rank\n"
    "that did not answer; 2 wrong usage.";

constexpr const char* kConfigFooter =
    "Without RANKS: the settings of this command, as it would go by them. With RANKS (see meshbus call --help): what live mesh procs go "
    "by\n"
    "while they run, which is less: terminate.grace, session.away and log.level.\n"
    "\n"
    "Exit code: 0; 1 a rank did not answer, or refused a change, or there is no such mesh; 2 a setting is wrong.";

void add_config(CLI::App& app, ConfigArguments& config) {
  auto* verb = add_on_hosts(app, "config", "List settings: value, where it comes from, meaning; also those of live procs, and change them",
                            config.hosts, "10s");
  verb->footer(kConfigFooter);
  auto* ranks = verb->add_option("RANKS", config.ranks, "Of live procs: which ranks of which mesh");
  verb->add_option("--set", config.settings, "A setting of this command: KEY=VALUE")->type_name("KEY=VALUE")->excludes(ranks);
  verb->add_option("--change", config.changes, "What these procs go by from now on: KEY=VALUE")->type_name("KEY=VALUE")->needs(ranks);
}

void add_talk(CLI::App& app, const std::string& name, const std::string& meaning, TalkArguments& talk) {
  auto* verb = add_on_hosts(app, name, meaning, talk.hosts);
  verb->footer(kTalkFooter);
  verb->add_option("RANKS", talk.selector, "Which ranks of which mesh; see below")->required();
  verb->add_option("TO", talk.to, "A port, or with --actor a message")->required();
  verb->add_option("BODY", talk.body, "What to send; - reads it from stdin; default: nothing");
  auto* actor = verb->add_option("--actor", talk.actor, "For the actors of that name")->type_name("NAME");
  if (name != "call") return;
  auto* raw = verb->add_flag("--raw", talk.raw, "Answers as they are, by rank, without prefixes")->excludes(verb->get_option("--json"));
  verb->add_option("--reduce", talk.reduce, "One value instead of the answers of actors; each host reduces those of its ranks")
      ->type_name("sum|min|max|count|any|all|overlay")
      ->needs(actor)
      ->excludes(raw);
}

void add_watch(CLI::App& app, HostsArguments& hosts) {
  auto* verb = add_on_hosts(app, "watch", "Show what changes, as it happens: ranks that start, end and fail, hosts that go and come back",
                            hosts, "30s, for finding hosts and mesh");
  verb->add_option("MESH", hosts.mesh, "Only this mesh, with or without its uuid, until it has ended; default: all, until Ctrl-C");
  verb->add_option("--actor", hosts.actor, "Only the actors of that name, until all of them have ended")->type_name("NAME");
  verb->footer(
      "What stands already comes first. Exit code: 0 MESH has ended; 1 it has failed, there is none, or a host does not answer; "
      "2 wrong usage; 130 Ctrl-C; 141 nobody reads the output.");
}

void add_why(CLI::App& app, WhyArguments& why) {
  auto* verb = add_on_hosts(app, "why", "Say why ranks have ended: the first cause, then what followed from it", why.hosts);
  verb->footer(kWhyFooter);
  verb->add_option("TARGET", why.target, "A mesh, a rank, or a proc");
  add_ranks(*verb, why.ranks);
}

constexpr const char* kBenchFooter =
    "Measured is a broker started for it and ended after it, or with --host the one of a running host. Every figure is one run of one\n"
    "machine: pin it with --cpu, and repeat it, before comparing. CPU is that of the broker or brokers, - where it cannot be told.";

void add_bench(CLI::App& app, BenchArguments& bench) {
  using Verb = BenchArguments::Verb;
  auto* verbs = app.add_subcommand("bench", "Measure message times and rates on this machine; a few seconds each");
  verbs->require_subcommand(1);
  verbs->footer(kBenchFooter);
  struct Defaults {
    std::vector<std::size_t> sizes;
    std::size_t count = 0;
    std::size_t peers = 0;
  };
  const auto add = [&](const char* name, Verb verb, const char* meaning, const Defaults& defaults) {
    auto* one = verbs->add_subcommand(name, meaning);
    one->footer(kBenchFooter);
    one->callback([&bench, verb, defaults] {
      bench.verb = verb;
      if (bench.sizes.empty()) bench.sizes = defaults.sizes;
      if (bench.count == 0) bench.count = defaults.count;
      if (bench.peers == 0) bench.peers = defaults.peers;
    });
    one->add_option_function<std::string>(
           "--host", [&bench](const std::string& text) { bench.hosts = split(text, ','); },
           verb == Verb::link   ? "Two running hosts, A,B, instead of brokers of its own"
           : verb == Verb::cast ? "Running hosts, A,B,..., instead of one of its own; the ranks lie on them in blocks"
                                : "A running host instead of a broker of its own")
        ->type_name("ADDRESS");
    if (!defaults.sizes.empty()) {
      std::string list;
      for (const auto size : defaults.sizes) list += (list.empty() ? "" : ",") + std::to_string(size);
      one->add_option("--sizes", bench.sizes, "Bytes of a message; default " + list)
          ->delimiter(',')
          ->check(CLI::Range(std::size_t{1}, std::size_t{kBodyLimit}))
          ->type_name("N,...");
    }
    if (defaults.count > 0)
      one->add_option("--count", bench.count,
                      (verb == Verb::fanout || verb == Verb::cast ? "Messages to all; default " : "Round trips; default ") +
                          std::to_string(defaults.count))
          ->check(CLI::Range(1, 10'000'000))
          ->type_name("N");
    if (defaults.peers > 0) {
      auto* peers =
          one->add_option(verb == Verb::peers ? "PEERS" : "--peers", bench.peers, "How many; default " + std::to_string(defaults.peers));
      peers->check(CLI::Range(1, 100'000));
      if (verb != Verb::peers) peers->type_name("N");
    }
    if (verb == Verb::throughput || verb == Verb::link) {
      add_duration(one, "--duration", bench.duration, "How long messages flow for each size; default 1s");
      one->add_flag("--flush", bench.flush, "Send each message on its own, instead of packed with others");
    }
    if (verb == Verb::link) {
      auto* is_unix =
          one->add_flag("--unix", bench.is_unix, "Link the two brokers by unix sockets instead of tcp on the loopback interface");
      one->add_flag("--curve", bench.is_curve, "Link them by tcp with keys, as hosts are")->excludes(is_unix);
    }
    one->add_option("--cpu", bench.cpu, "Keep everything on that CPU")->check(CLI::Range(0, 1023))->type_name("N");
    one->add_flag("--json", bench.json, "Print JSON");
  };
  add("rtt", Verb::rtt, "A message there and back between two processes", {{64, 1024, 65536}, 3000, 0});
  add("throughput", Verb::throughput, "Messages in one direction between two processes", {{64, 1024, 65536}, 0, 0});
  add("fanout", Verb::fanout, "One message to many peers of a broker, until all have it", {{64}, 100, 200});
  add("cast", Verb::cast, "One message to every rank of a mesh of real procs, until all have answered", {{64}, 100, 100});
  add("link", Verb::link, "The same as rtt and throughput between two hosts' brokers", {{64, 65536}, 3000, 0});
  add("peers", Verb::peers, "Idle peers that register: how fast, and how much memory each takes in the broker", {{}, 0, 1000});
  auto* end = verbs->add_subcommand("end")->group("");
  end->add_option("ENDPOINT", bench.endpoint)->required();
  end->add_option("QUARTER", bench.quarter)->required();
  end->callback([&bench] { bench.verb = Verb::end; });
  verbs->add_subcommand("member")->group("")->callback([&bench] { bench.verb = Verb::member; });
  auto* crowd = verbs->add_subcommand("crowd")->group("");
  crowd->add_option("ENDPOINT", bench.endpoint)->required();
  crowd->add_option("SEED", bench.seed)->required();
  crowd->add_option("BEGIN", bench.begin)->required();
  crowd->add_option("COUNT", bench.peers)->required();
  crowd->callback([&bench] { bench.verb = Verb::crowd; });
}

constexpr const char* kTapFooter =
    "A filter is terms with spaces between them, all of which must hold:\n"
    "  from= to= proc=                 a proc by name (train_3-13Se1Maqzryj, train_*), HOST,NAME, key 0x..., or broker\n"
    "  from.host= to.host= host=       a host by address, or by key\n"
    "  kind=                           control message call reply error\n"
    "  lane=                           control data\n"
    "  port= size=                     numbers, also with < <= > >=: size>=64KiB\n"
    "With several values A|B any of them; != for none of them. Names with * are those of procs at the tapped host.\n"
    "\n"
    "Seen is what peers and links send to procs and other hosts, and what the broker itself tells procs. A tap never holds the broker\n"
    "up: who is too slow misses messages, and is told how many. Needs the unix socket of a host of yours on this machine.\n"
    "\n"
    "--replay sends messages and calls with their bodies (record with --bodies all) to the procs of the same names and ports at the host\n"
    "given by --into, as this launcher; it says how many were sent, came back, and were skipped, and why. Control messages and\n"
    "answers are never sent again.\n"
    "\n"
    "Exit code: 0; 1 no such host or file; 2 wrong usage; 130 Ctrl-C; 141 nobody reads the output; 143 SIGTERM.";

void add_tap(CLI::App& app, TapArguments& tap) {
  auto* verb = app.add_subcommand("tap", "Show the messages that a host's broker passes on, as they come; record them, send them again");
  verb->footer(kTapFooter);
  auto* host =
      verb->add_option("--host", tap.host, "The host to tap; default: the only one of yours on this machine")->type_name("ADDRESS");
  auto* json = verb->add_flag("--json", tap.json, "Print JSON lines");
  verb->add_option("--filter", tap.filter, "Which messages; see below")->type_name("EXPRESSION");
  auto* bodies = verb->add_option_function<std::string>(
                         "--bodies",
                         [&tap](const std::string& text) {
                           const auto bytes = text == "all" ? Result<std::uint64_t>(kBodyLimit) : parse_bytes(text);
                           if (!bytes) throw CLI::ValidationError("--bodies", bytes.error().detail() + ", or all");
                           tap.bodies = static_cast<std::uint32_t>(std::min<std::uint64_t>(*bytes, kBodyLimit));
                         },
                         "How much of each body to copy: 64, 4KiB, all; default: nothing")
                     ->type_name("BYTES|all");
  auto* count = verb->add_option("--count", tap.count, "End after so many messages; with --write, after the batch that has them")
                    ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 62U))
                    ->type_name("N");
  auto* write = verb->add_option("--write", tap.write, "Append to this file instead of printing")->type_name("FILE")->excludes(json);
  auto* read = verb->add_option("--read", tap.read, "Print what is in a file that --write wrote")->type_name("FILE");
  auto* replay = verb->add_option("--replay", tap.replay, "Send what is in such a file again")->type_name("FILE");
  auto* into = verb->add_option("--into", tap.into, "Where to send it: a host, or a broker alone")->type_name("ADDRESS")->needs(replay);
  replay->needs(into);
  for (auto* option : {host, bodies, write}) {
    read->excludes(option);
    replay->excludes(option);
  }
  replay->excludes(read)->excludes(count);
  verb->add_option_function<std::string>(
          "--speed",
          [&tap](const std::string& text) {
            char* end = nullptr;
            tap.speed = text == "max" ? 0 : std::strtod(text.c_str(), &end);
            if (text != "max" && (end == nullptr || *end != '\0' || !(tap.speed >= 0.001 && tap.speed <= 1e6)))
              throw CLI::ValidationError("--speed", "takes how many times as fast, 0.001 to 1000000, or max, not '" + text + "'");
          },
          "How fast: 1 as it was (default), 10 ten times as fast, max without waiting")
      ->type_name("X|max")
      ->needs(replay);
}

constexpr const char* kContextFooter =
    "A context is a list of hosts under a name, with settings to come to them, like the key to use: --set keys.own=FILE. Commands take\n"
    "--context NAME; without --hosts, --hostfile, --context and MESHBUS_HOSTS they take the context in use. Settings of a context are\n"
    "stronger than the environment, and weaker than --set. Contexts lie in ~/.config/meshbus/contexts.\n"
    "\n"
    "Exit code: 0; 1 there is no such context; 2 wrong usage; 125 it cannot be written.";

void add_context(CLI::App& app, ContextArguments& context) {
  using Verb = ContextArguments::Verb;
  auto* verbs = app.add_subcommand("context", "Keep lists of hosts under names");
  verbs->require_subcommand(1);
  verbs->footer(kContextFooter);
  const auto add_verb = [&](const char* name, Verb verb, const char* meaning) {
    auto* one = verbs->add_subcommand(name, meaning);
    one->footer(kContextFooter);
    one->callback([&context, verb] { context.verb = verb; });
    return one;
  };
  auto* add = add_verb("add", Verb::add, "Make a context; with --replace also one that is there");
  add->add_option("NAME", context.name)->required();
  add_hosts(*add, context.said, "Addresses of hosts, ranges like tcp:h[1-4]:7420 among them", "ADDRESS,...");
  add->add_option("--set", context.settings, "A setting for who uses it: KEY=VALUE")->type_name("KEY=VALUE")->allow_extra_args(false);
  add->add_flag("--replace", context.replace, "Even if there is one of that name");
  auto* list = add_verb("list", Verb::list, "List the contexts; * marks the one in use");
  auto* show = add_verb("show", Verb::show, "Show a context; default: the one in use");
  show->add_option("NAME", context.name);
  for (auto* one : {list, show}) one->add_flag("--json", context.json, "Print JSON");
  auto* use = add_verb("use", Verb::use, "Make it the one in use");
  auto* name = use->add_option("NAME", context.name);
  use->add_flag_callback("--none", [&context] { context.name.clear(); }, "None is in use from now on")->excludes(name);
  use->require_option(1);
  add_verb("remove", Verb::remove, "Remove a context")->add_option("NAME", context.name)->required();
}

constexpr const char* kKeygenFooter =
    "ROLE is what the key is good for: observer (look), client (also call and send to procs), operator (also spawn, stop, shut down),\n"
    "host (a broker's own). The NAME of a host's key is the HOST, or HOST:PORT, of the address that it is known by.\n"
    "\n"
    "Makes DIR/NAME.key, the secret (0600), and DIR/authorised/ROLE/NAME.pub, which goes to the same place on every host that shall let\n"
    "its holder in; that of a host goes also to those who connect to it. Hosts notice new and removed files within a second.\n"
    "\n"
    "--token prints TOKEN@ADDRESS instead, for `meshbus host --join` on a new host: it makes its own key there, and gets all that lies in\n"
    "authorised/. Run it as the user, and with the keys, of the host that shall take it in.\n"
    "\n"
    "Exit code: 0; 2 wrong usage; 125 the key is there already, or cannot be made.";

void add_keygen(CLI::App& app, KeygenArguments& keygen) {
  auto* verb = app.add_subcommand("keygen", "Make keys for connections over tcp");
  verb->footer(kKeygenFooter);
  verb->add_option("ROLE", keygen.role, "observer, client, operator or host")
      ->required()
      ->check(CLI::IsMember({"observer", "client", "operator", "host"}));
  verb->add_option("NAME", keygen.names, "Who the key is for; several = a key for each")->required();
  verb->add_option("--dir", keygen.directory, "Where keys lie; default: keys.directory, or ~/.config/meshbus/keys")->type_name("DIR");
  auto* if_missing = verb->add_flag("--if-missing", keygen.if_missing, "Leave keys alone that are there");
  auto* rotate = verb->add_flag("--rotate", keygen.rotate, "Make a new key; the old one is known besides until --retire");
  auto* retire = verb->add_flag("--retire", keygen.retire, "Let only the present key be known");
  if_missing->excludes(rotate)->excludes(retire);
  rotate->excludes(retire);
  auto* token = verb->add_flag("--token", keygen.token, "Print a token by which one new host of that name may join, once");
  token->excludes(if_missing)->excludes(rotate)->excludes(retire);
  verb->add_option("--at", keygen.at, "The host that takes the token; default: the only one of yours on this machine")
      ->type_name("ADDRESS")
      ->needs(token);
  add_duration(verb, "--for", keygen.valid_for, "How long the token is good for, 1s to 24h; default 10m")->needs(token);
  verb->add_flag("--json", keygen.json, "Print JSON");
}

/// The word that was not understood, and what it may have been meant to be.
std::string suggestion(const CLI::App& app, int argc, char** argv, const std::string& path = "meshbus") {
  std::vector<std::string> verbs;
  for (const auto* verb : app.get_subcommands([](const CLI::App*) { return true; })) verbs.push_back(verb->get_name());
  if (argc < 2) return app.get_parent() == nullptr ? "" : path + " what? The commands are in " + path + " --help";
  const std::string first = argv[1];
  if (first.empty() || first[0] != '-') {
    if (std::find(verbs.begin(), verbs.end(), first) == verbs.end()) {
      const auto near = did_you_mean(first, verbs);
      return "unknown command '" + first + "'" +
             (near.empty() ? "; the commands are in " + path + " --help" : "; did you mean '" + std::string(near) + "'?");
    }
    const CLI::App* verb = app.get_subcommand(first);
    if (!verb->get_subcommands([](const CLI::App*) { return true; }).empty())
      return suggestion(*verb, argc - 1, argv + 1, path + " " + first);
    std::vector<std::string> flags;
    for (const auto* option : verb->get_options()) {
      for (const auto& name : option->get_lnames()) flags.push_back("--" + name);
    }
    for (int i = 2; i < argc && std::string(argv[i]) != "--"; ++i) {
      const std::string word = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
      if (!word.starts_with("--") || std::find(flags.begin(), flags.end(), word) != flags.end()) continue;
      const auto near = did_you_mean(word, flags);
      return path + " " + first + " has no " + word + (near.empty() ? "" : "; did you mean " + std::string(near) + "?");
    }
  }
  return {};
}

/// A command line can be read by every user of the machine: what is secret in this one is overwritten.
void hide_tokens(int argc, char** argv) {
  constexpr std::string_view kJoin = "--join";
  for (int i = 2; i < argc; ++i) {
    std::string_view word = argv[i];
    char* token = argv[i];
    if (word.starts_with(std::string(kJoin) + "=")) {
      token += kJoin.size() + 1;
    } else if (argv[i - 1] != kJoin) {
      continue;
    }
    std::fill(token, token + std::min(word.rfind('@'), word.size()) - (token - argv[i]), 'x');
  }
}

}  // namespace

std::variant<Arguments, int> parse_command_line(int argc, char** argv) {
  CLI::App app(kIntroduction, "meshbus");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("meshbus ") + MESHBUS_VERSION);
  HostArguments host;
  host.warden.print_ready = true;
  RunArguments run;
  HostsArguments hosts;
  LogsArguments logs;
  ConfigArguments config;
  MeshArguments mesh;
  VersionArguments version;
  add_run(app, run);
  SpawnArguments spawn;
  add_spawn(app, spawn);
  add_host(app, host);
  auto* ps = add_on_hosts(app, "ps", "List hosts, meshes and procs", hosts, "10s");
  ps->add_flag("-a,--all", hosts.all, "Also those that are ended");
  ps->add_flag("-w,--wide", hosts.wide, "Also what each proc uses: CPU time, CPUs just now, memory, its peak, threads, descriptors");
  add_on_hosts(app, "ping", "Say whether hosts answer, and how long it takes; exit code 1 when one does not, or there is none", hosts,
               "5s");
  auto* stop = add_on_hosts(app, "stop", "Stop the procs of a mesh", hosts);
  stop->add_option("MESH", hosts.mesh, "Name of the mesh, with or without its uuid")->required();
  add_duration(stop, "--grace", hosts.grace, "Between SIGTERM and SIGKILL; default 10s");
  auto* shutdown = add_on_hosts(app, "shutdown", "Stop all procs of hosts, then the hosts themselves", hosts);
  add_duration(shutdown, "--grace", hosts.grace, "Between SIGTERM and SIGKILL; default 10s");
  add_drain(app, hosts);
  add_status(app, hosts);
  add_watch(app, hosts);
  ControllerArguments controller;
  add_controller(app, controller);
  add_logs(app, logs);
  WhyArguments why;
  add_why(app, why);
  TalkArguments talk;
  add_talk(app, "call", "Ask ranks of a running mesh, all at once, and show what each answers", talk);
  add_talk(app, "cast", "Send ranks of a running mesh a message that nobody answers", talk);
  add_config(app, config);
  ContextArguments context;
  add_context(app, context);
  KeygenArguments keygen;
  add_keygen(app, keygen);
  add_mesh(app, mesh);
  TapArguments tap;
  add_tap(app, tap);
  BenchArguments bench;
  add_bench(app, bench);
  app.add_subcommand("version", "Print the version")->add_flag("--json", version.json, "Print JSON");

  // Everything after the first -- is the command, whatever it looks like.
  int own = argc;
  const bool has_command = argc > 1 && (std::string(argv[1]) == "run" || std::string(argv[1]) == "spawn");
  for (int i = 2; i < argc && own == argc && has_command; ++i) {
    if (std::string(argv[i]) == "--") own = i;
  }
  try {
    app.parse(own, argv);
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    const auto better = suggestion(app, own, argv);
    std::cerr << "meshbus: " << (better.empty() ? error.what() : better) << "\n";
    if (argc < 2) std::cerr << "try: meshbus --help\n";
    return kUsage;
  }
  const auto name = app.get_subcommands().front()->get_name();
  if (name == "host") {
    if (!host.joins.empty()) hide_tokens(argc, argv);
    return Arguments(host);
  }
  if (name == "version") return Arguments(version);
  if (name == "config") {
    config.hosts.verb = HostsArguments::Verb::config;
    if (app.get_subcommand(name)->count("--timeout") == 0) config.hosts.timeout = std::chrono::seconds(10);
    return Arguments(config);
  }
  if (name == "context") return Arguments(context);
  if (name == "keygen") return Arguments(keygen);
  if (name == "mesh") return Arguments(mesh);
  if (name == "tap") return Arguments(tap);
  if (name == "bench") return Arguments(bench);
  if (name == "spawn") {
    spawn.hosts.verb = HostsArguments::Verb::spawn;
    if (own + 1 < argc) spawn.command.assign(argv + own + 1, argv + argc);
    if (!spawn.command.empty()) return Arguments(spawn);
    std::cerr << "meshbus: spawn what? Give a command: meshbus spawn NAME -- COMMAND ARGUMENTS...\n";
    return kUsage;
  }
  if (name == "controller") {
    controller.hosts.verb = HostsArguments::Verb::controller;
    if (app.get_subcommand(name)->get_subcommands().front()->count("--timeout") == 0) controller.hosts.timeout = std::chrono::seconds(10);
    return Arguments(controller);
  }
  if (name == "logs") {
    logs.hosts.verb = HostsArguments::Verb::logs;
    return Arguments(logs);
  }
  if (name == "call" || name == "cast") {
    talk.hosts.verb = HostsArguments::Verb::talk;
    talk.is_call = name == "call";
    return Arguments(talk);
  }
  if (name == "why") {
    why.hosts.verb = HostsArguments::Verb::why;
    return Arguments(why);
  }
  if (name != "run") {
    using Verb = HostsArguments::Verb;
    static const std::map<std::string, Verb> verbs = {
        {"ps", Verb::ps},         {"ping", Verb::ping},   {"stop", Verb::stop},  {"shutdown", Verb::shutdown},
        {"status", Verb::status}, {"drain", Verb::drain}, {"watch", Verb::watch}};
    hosts.verb = verbs.at(name);
    // Nobody who lists or pings hosts means half a minute.
    hosts.is_timeout_given = app.get_subcommand(name)->count("--timeout") > 0;
    if (!hosts.is_timeout_given && hosts.verb == Verb::ps) hosts.timeout = std::chrono::seconds(10);
    if (!hosts.is_timeout_given && hosts.verb == Verb::ping) hosts.timeout = std::chrono::seconds(5);
    return Arguments(hosts);
  }
  // Without --, the command begins at the first word that is no flag of ours.
  run.command = app.get_subcommand("run")->remaining();
  if (own < argc) {
    if (!run.command.empty()) {
      const auto better = suggestion(app, own, argv);
      std::cerr << "meshbus: " << (better.empty() ? "meshbus run does not understand '" + run.command.front() + "' in front of --" : better)
                << "\n";
      return kUsage;
    }
    run.command.assign(argv + own + 1, argv + argc);
  } else if (!run.command.empty() && run.command.front().starts_with("-")) {
    const auto better = suggestion(app, own, argv);
    std::cerr << "meshbus: " << (better.empty() ? "meshbus run has no flag '" + run.command.front() + "'" : better) << "\n";
    return kUsage;
  }
  if (run.command.empty()) {
    std::cerr << "meshbus: run what? Give a command: meshbus run -n 4 -- COMMAND ARGUMENTS...\n";
    return kUsage;
  }
  return Arguments(run);
}

}  // namespace meshbus::cli
