#include "meshbus/proc.h"

#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <utility>

#include "agent/proc/runtime/bootstrap.h"
#include "agent/proc/runtime/runtime.h"
#include "agent/proc/several_procs.h"
#include "common/address/actor_words.h"
#include "common/base/log.h"
#include "common/base/unique_fd.h"
#include "common/wire/actor_body.h"
#include "common/wire/settings_call.h"

namespace meshbus {
namespace {

using mesh_proc::Runtime;
using mesh_proc::SeveralProcs;

/// The one of this process, for exit(), or those that share it. Never destroyed.
Runtime* the_runtime = nullptr;
SeveralProcs* the_process = nullptr;

std::string call_context(const ProcId& to, std::uint32_t port) {
  return "call to " + to.to_string() + ", port " + std::to_string(port);
}

Result<std::string> with_context(Result<std::string> answer, const std::string& context) {
  if (!answer) return fail(answer.error().within(context));
  return answer;
}

/// Calls a function of the program with the answer to a call: once, also when the proc ends before
/// there is one. Nothing that it throws gets into the loop.
class ToldOnce {
 public:
  ToldOnce(std::function<void(Result<std::string>)> then, std::string what)
      : then_(std::move(then)), what_(std::move(what)) {}
  ~ToldOnce() {
    tell(fail(ErrorCode::fate_unknown, "this proc left the bus before there was an answer"));
  }
  ToldOnce(const ToldOnce&) = delete;
  ToldOnce& operator=(const ToldOnce&) = delete;

  void tell(Result<std::string> answer) noexcept {
    const auto then = std::exchange(then_, nullptr);
    if (!then) return;
    try {
      then(with_context(std::move(answer), what_));
    } catch (const std::exception& error) {
      log::warn("what waits for the answer to a " + what_ + " has thrown: " + error.what());
    } catch (...) {
      log::warn("what waits for the answer to a " + what_ + " has thrown what is no exception");
    }
  }

 private:
  std::function<void(Result<std::string>)> then_;
  std::string what_;
};

}  // namespace

ProcProgram& ProcProgram::on(std::uint32_t port, Handler handler) {
  if (!handler)
    mistake_ = "ProcProgram::on: the handler of port " + std::to_string(port) + " is empty";
  if (port == 0) mistake_ = "ProcProgram::on: port 0 is the library's own; use 1 or above";
  if (!handlers_.emplace(port, std::move(handler)).second)
    mistake_ = "ProcProgram::on: port " + std::to_string(port) + " has two handlers";
  return *this;
}

ProcProgram& ProcProgram::main(std::function<int(Proc&)> body) {
  main_ = std::move(body);
  return *this;
}

ProcProgram& ProcProgram::on_stop(std::function<void(Proc&, const std::string&)> handler) {
  on_stop_ = std::move(handler);
  return *this;
}

ProcProgram& ProcProgram::on_undelivered(std::function<void(Proc&, const Undelivered&)> handler) {
  on_undelivered_ = std::move(handler);
  return *this;
}

ProcProgram& ProcProgram::actor_type(const std::string& name, ActorFactory factory,
                                     const ActorOptions& options) {
  const auto is_fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == ':' || c == '-';
  };
  if (name.empty() || name.size() > 63 || !std::all_of(name.begin(), name.end(), is_fine))
    mistake_ =
        "ProcProgram::actor: a type is named by 1 to 63 letters, digits, '_', '.', ':' and '-', "
        "not by \"" +
        name + "\"";
  if (!actor_types_.emplace(name, ActorType{std::move(factory), options}).second)
    mistake_ = "ProcProgram::actor: there are two types of the name " + name;
  return *this;
}

ProcProgram& ProcProgram::leave_signals() {
  leaves_signals_ = true;
  return *this;
}

ProcProgram& ProcProgram::actor_threads(unsigned threads) {
  if (threads < 1 || threads > 64)
    mistake_ = "ProcProgram::actor_threads: 1 to 64, not " + std::to_string(threads);
  actor_threads_ = threads;
  return *this;
}

ProcProgram& ProcProgram::setting(const std::string& name, SettingValue standard,
                                  std::string help) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_fine = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
  };
  if (name.empty() || name.size() > 63 || !is_letter(name.front()) ||
      !std::all_of(name.begin(), name.end(), is_fine))
    mistake_ =
        "ProcProgram::setting: a setting is named by 1 to 63 letters, digits, '_', '.' and '-', a "
        "letter first, not by \"" +
        name + "\"";
  if (const auto back = parse_setting(standard, to_text(standard)); !back || *back != standard)
    mistake_ = "ProcProgram::setting: the default of " + name + " is no value that it could have";
  if (help.size() > 500)
    mistake_ = "ProcProgram::setting: the help of " + name + " has more than 500 characters";
  if (!settings_.emplace(name, Setting{std::move(standard), std::move(help)}).second)
    mistake_ = "ProcProgram::setting: there are two settings of the name " + name;
  if (settings_.size() > kMostProgramSettings)
    mistake_ = "ProcProgram::setting: more than " + std::to_string(kMostProgramSettings);
  return *this;
}

ProcProgram& ProcProgram::on_setting(
    std::function<void(Proc&, const std::string&, const SettingValue&)> handler) {
  on_setting_ = std::move(handler);
  return *this;
}

ProcProgram& ProcProgram::on_world(std::function<void(Proc&, const ProcMeshRef&)> handler) {
  on_world_ = std::move(handler);
  return *this;
}

bool is_mesh_proc() noexcept {
  return std::getenv(mesh_proc::kBootstrapVariable) != nullptr;
}

namespace {

/// What this process was started with.
struct Birth {
  mesh_proc::Bootstrap bootstrap;
  /// Empty: it is one proc only.
  UniqueFd link;
};

Result<Birth> take_birth(const ProcProgram& program) {
  if (auto fine = Runtime::check(program); !fine) return fail(fine.error());
  if (the_runtime != nullptr || the_process != nullptr)
    return fail(ErrorCode::refused,
                "this process is a mesh proc already: bootstrap() and join() are called once");
  const char* value = std::getenv(mesh_proc::kBootstrapVariable);
  if (value == nullptr) {
    return fail(ErrorCode::not_exist,
                "not a mesh proc: " + std::string(mesh_proc::kBootstrapVariable) +
                    " is not set; start this program with `meshbus run --mesh -- PROGRAM`, or "
                    "spawn it from a launcher with ProcKind::mesh");
  }
  const std::string variable = value;
  // Whatever comes of it, descendants must not take it for theirs.
  ::unsetenv(mesh_proc::kBootstrapVariable);
  auto link = mesh_proc::open_link(variable);
  if (!link) return fail(link.error());
  auto bootstrap = mesh_proc::load_bootstrap(variable);
  if (!bootstrap) return fail(std::move(bootstrap).error());
  if (auto fine = Runtime::check(program, *bootstrap); !fine) return fail(fine.error());
  return Birth{std::move(*bootstrap), std::move(*link)};
}

/// Makes the one proc of this process. It leaves the bus in exit(). Errors: io_error.
Result<void> make_runtime(mesh_proc::Bootstrap bootstrap, const ProcProgram& program) {
  try {
    the_runtime = new Runtime(std::move(bootstrap), program);
  } catch (const std::exception& error) {
    return fail(ErrorCode::io_error, std::string("cannot start as a mesh proc: ") + error.what());
  }
  ::on_exit([](int code, void*) { the_runtime->shutdown(code); }, nullptr);
  return {};
}

/// The same for all procs of it.
Result<void> make_several(Birth birth, const ProcProgram& program) {
  try {
    the_process = new SeveralProcs(std::move(birth.bootstrap), std::move(birth.link), program);
  } catch (const std::exception& error) {
    return fail(ErrorCode::io_error, std::string("cannot start as mesh procs: ") + error.what());
  }
  ::on_exit([](int code, void*) { the_process->on_exit(code); }, nullptr);
  return {};
}

}  // namespace

Result<void> bootstrap(const ProcProgram& program) {
  auto birth = take_birth(program);
  if (!birth) return fail(birth.error());
  if (birth->link) {
    if (auto made = make_several(std::move(*birth), program); !made) return made;
    the_process->run();
  }
  if (auto made = make_runtime(std::move(birth->bootstrap), program); !made) return made;
  std::exit(the_runtime->run());
}

Result<Proc*> join(ProcProgram program) {
  if (Runtime::has_main(program))
    return fail(ErrorCode::configuration_error,
                "join(): its caller goes on as main(); a program with ProcProgram::main() is "
                "for bootstrap()");
  // Never runs: it says that this proc has a main().
  program.main([](Proc&) { return 0; });
  auto birth = take_birth(program);
  if (!birth) return fail(birth.error());
  if (birth->link)
    return fail(ErrorCode::refused,
                "this program goes on as one proc (join(), meshbus.init() in Python), but its "
                "process was started as several: spawn it without procs_per_process "
                "(--procs-per-process)");
  if (auto made = make_runtime(std::move(birth->bootstrap), program); !made)
    return fail(made.error());
  // A stop may come before the caller can ask: it is not ended at once for that.
  (void)the_runtime->stop_requested();
  try {
    the_runtime->start();
  } catch (const std::exception& error) {
    return fail(ErrorCode::io_error, std::string("cannot start as a mesh proc: ") + error.what());
  }
  return &the_runtime->proc();
}

void bootstrap_or_die(const ProcProgram& program) {
  const auto failed = bootstrap(program);
  std::fprintf(stderr, "%s: %s\n", ::program_invocation_short_name,
               failed.error().detail().c_str());
  std::exit(EX_CONFIG);
}

std::uint64_t Proc::rank() const noexcept {
  return runtime_.rank();
}
std::uint64_t Proc::world_size() const noexcept {
  return mesh().num_ranks();
}
Point Proc::point() const {
  return mesh().region().extent().point_of(rank()).value_or(Point());
}
const ProcId& Proc::id() const noexcept {
  return runtime_.bootstrap().proc;
}
const std::vector<std::pair<std::string, std::string>>& Proc::launcher_settings() const noexcept {
  return runtime_.bootstrap().config;
}
Result<SettingValue> Proc::setting_value(std::string_view name) const {
  return runtime_.program_settings().get(name);
}
const ProcMeshRef& Proc::mesh() const noexcept {
  return runtime_.mesh();
}
std::optional<std::uint64_t> Proc::rank_of(const Incoming& incoming) const {
  return runtime_.rank_of(incoming.source_proc);
}

Result<std::string> Proc::call(std::uint64_t rank, std::uint32_t port, const BodyParts& body,
                               std::chrono::milliseconds deadline) {
  const auto to = mesh().proc_at(rank);
  if (!to) return fail(to.error());
  return call(*to, port, body, deadline);
}

Result<std::string> Proc::call(const ProcId& to, std::uint32_t port, const BodyParts& body,
                               std::chrono::milliseconds deadline) {
  if (auto allowed = runtime_.check_caller(to); !allowed)
    return fail(allowed.error().within(call_context(to, port)));
  auto answer = runtime_.call(to, port, body, deadline);
  if (!answer) return fail(answer.error().within(call_context(to, port)));
  return answer;
}

std::future<Result<std::string>> Proc::call_async(std::uint64_t rank, std::uint32_t port,
                                                  const BodyParts& body,
                                                  std::chrono::milliseconds deadline) {
  if (const auto to = mesh().proc_at(rank)) return call_async(*to, port, body, deadline);
  std::promise<Result<std::string>> promise;
  promise.set_value(fail(mesh().proc_at(rank).error()));
  return promise.get_future();
}

std::future<Result<std::string>> Proc::call_async(const ProcId& to, std::uint32_t port,
                                                  const BodyParts& body,
                                                  std::chrono::milliseconds deadline) {
  return runtime_.sender().call(to, port, body, deadline);
}

void Proc::call_async(const ActorId& to, const MessageType& type, const BodyParts& body,
                      std::chrono::milliseconds deadline,
                      std::function<void(Result<std::string>)> then) {
  const auto told = std::make_shared<ToldOnce>(
      std::move(then), "call to " + to.to_string() + ", " + type.to_string());
  if (auto fine = runtime_.sender().check_fork(); !fine) return told->tell(fail(fine.error()));
  runtime_.sender().call(to.proc(), actor_port(to), ActorBodyParts(type, 0, body), deadline,
                         [told, to, type](Result<std::string> answer) {
                           if (!answer) answer = fail(in_names(answer.error(), to, type));
                           told->tell(std::move(answer));
                         });
}

Result<void> Proc::send(const ActorId& to, const MessageType& type, const BodyParts& body) {
  if (auto fine = runtime_.sender().check_fork(); !fine) return fine;
  return runtime_.send_to_actor(to, ActorBodyParts(type, 0, body));
}

Result<void> Proc::send(std::uint64_t rank, std::uint32_t port, const BodyParts& body,
                        std::chrono::milliseconds patience) {
  return runtime_.sender().send(rank, port, body, patience);
}

Result<void> Proc::send(const ProcId& to, std::uint32_t port, const BodyParts& body,
                        std::chrono::milliseconds patience) {
  return runtime_.sender().send(to, port, body, patience);
}

Result<void> Proc::cast(const ProcMeshRef& to, std::uint32_t port, const BodyParts& body,
                        std::chrono::milliseconds patience) {
  return runtime_.sender().cast(to, port, body, patience);
}

Result<std::vector<Result<std::string>>> Proc::call(const ProcMeshRef& to, std::uint32_t port,
                                                    const BodyParts& body,
                                                    std::chrono::milliseconds deadline) {
  return runtime_.call_all(to, port, body, deadline);
}

bool Proc::stop_requested() const noexcept {
  return runtime_.stop_requested();
}
std::optional<StopRequest> Proc::stop_request() const {
  return runtime_.stop_request();
}
bool Proc::wait_for_stop(std::chrono::milliseconds at_most) const {
  return runtime_.wait_for_stop(at_most);
}

}  // namespace meshbus
