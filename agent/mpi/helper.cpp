#include "agent/mpi/helper.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "common/base/quantity.h"

namespace meshbus::mpi {
namespace {

constexpr int kBadConfiguration = 78;  // EX_CONFIG
constexpr int kFailed = 1;
constexpr char kOver[] = "this attempt of the job is over";

Result<std::string> variable(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0')
    return fail(ErrorCode::configuration_error,
                std::string(name) + " is not set: this program is started by meshbus run --mpi");
  return std::string(text);
}

Result<std::uint64_t> number(const char* name) {
  const auto text = variable(name);
  if (!text) return fail(text.error());
  const auto value = parse_whole(*text);
  if (!value)
    return fail(ErrorCode::configuration_error, std::string(name) + " is no number: " + *text);
  return *value;
}

}  // namespace

Result<HelperOptions> HelperOptions::from_environment() {
  const auto job = variable("MESHBUS_MPI_JOB");
  if (!job) return fail(job.error());
  const auto secret = variable("MESHBUS_MPI_SECRET");
  if (!secret) return fail(secret.error());
  HelperOptions options{.job = *job, .secret = *secret};
  for (const auto& [name, target] :
       {std::pair("MESHBUS_MPI_RANKS", &options.ranks), std::pair("RANK", &options.host),
        std::pair("WORLD_SIZE", &options.hosts)}) {
    const auto value = number(name);
    if (!value) return fail(value.error());
    *target = *value;
  }
  if (options.host >= options.hosts)
    return fail(ErrorCode::configuration_error, "RANK is not below WORLD_SIZE");
  return options;
}

Helper::Helper(const HelperOptions& options, os::MpiDirectory directory)
    : options_(options),
      layout_(options.ranks, options.hosts),
      directory_(std::move(directory)),
      door_(reactor_, {.check = [this](const RankHello& hello) { return check(hello); },
                       .on_hello = [this](const RankHello& hello) { on_hello(hello); },
                       .on_line = [this](const RankHello& hello,
                                         std::string_view line) { on_line(hello, line); },
                       .on_end = [this](const RankHello& hello) { on_end(hello); }}),
      exchange_(options.host, [this](const std::vector<std::uint64_t>& to, const Letter& letter) {
        send(to, letter);
      }) {
  begin_attempt(0);
}

Result<void> Helper::prepare(const MakeService& make) {
  if (make) {
    auto service = make({.reactor = reactor_,
                         .exchange = exchange_,
                         .layout = layout_,
                         .host = options_.host,
                         .secret = options_.secret,
                         .directory = directory_.path().string(),
                         .send = [this](const std::vector<std::uint64_t>& to,
                                        const Letter& letter) { send(to, letter); },
                         .notify = [this](Notice notice) { tell(std::move(notice)); }});
    if (!service) return fail(service.error());
    service_ = std::move(*service);
  }
  return door_.open(door_name(options_.job, options_.host));
}

void Helper::run(Proc& proc) {
  proc_ = &proc;
  reactor_.run();
  // Ranks have ended just before the stop.
  reactor_.turn(std::chrono::milliseconds(0));
}

void Helper::begin_attempt(std::uint64_t attempt) {
  attempt_ = attempt;
  fences_ = 0;
  has_told_begun_ = false;
  has_let_in_ = false;
  for (const auto& [rank, entries] : std::exchange(waiting_, {}))
    door_.answer(rank, fail(ErrorCode::refused, kOver));
  pmi1_ = std::make_unique<Pmi1Server>(layout_, options_.host);
}

Result<void> Helper::check(const RankHello& hello) {
  const auto block = layout_.block_of(options_.host);
  if (hello.rank < block.begin || hello.rank >= block.end)
    return fail(ErrorCode::out_of_range,
                "rank " + std::to_string(hello.rank) + " is not one of this host");
  if (hello.attempt < attempt_) return fail(ErrorCode::refused, kOver);
  if (hello.attempt > attempt_) begin_attempt(hello.attempt);
  return {};
}

void Helper::on_hello(const RankHello& hello) {
  auto entries = environment(hello.rank);
  if (!entries || has_let_in_ || !service_ || !service_->begins_together())
    return door_.answer(hello.rank, entries);
  waiting_[hello.rank] = std::move(*entries);
  if (waiting_.size() < layout_.block_of(options_.host).size()) return;
  has_let_in_ = true;
  for (const auto& [rank, given] : std::exchange(waiting_, {})) door_.answer(rank, given);
}

Result<std::vector<std::string>> Helper::environment(std::uint64_t rank) {
  const auto block = layout_.block_of(options_.host);
  std::vector<std::string> entries = {
      "PMI_FD=?",
      "PMI_RANK=" + std::to_string(rank),
      "PMI_SIZE=" + std::to_string(layout_.ranks()),
      "MPI_LOCALRANKID=" + std::to_string(rank - block.begin),
      "MPI_LOCALNRANKS=" + std::to_string(block.size()),
  };
  if (!service_) return entries;
  auto more = service_->environment(rank, attempt_);
  if (!more) return more;
  entries.insert(entries.end(), more->begin(), more->end());
  return entries;
}

void Helper::on_line(const RankHello& hello, std::string_view line) {
  if (hello.attempt != attempt_) return;
  const auto outcome = pmi1_->on_line(hello.rank, line);
  if (pmi1_->has_begun(hello.rank)) tell({.kind = Notice::Kind::begun, .rank = hello.rank});
  carry_out(outcome);
  if (!outcome.aborts) return;
  if (const auto killed = door_.kill(hello.rank); !killed)
    std::cerr << "meshbus-mpi: a rank that has called MPI_Abort goes on: "
              << killed.error().to_string() << std::endl;
}

void Helper::carry_out(const Pmi1Server::Outcome& outcome) {
  if (outcome.notice) tell(*outcome.notice);
  for (const auto& [rank, text] : outcome.replies) door_.write(rank, text);
  if (!outcome.fence) return;
  exchange_.begin("pmi1 " + std::to_string(attempt_) + " " + std::to_string(fences_++),
                  layout_.used_hosts(), *outcome.fence,
                  [this, attempt = attempt_](const std::string& values) {
                    if (attempt == attempt_) carry_out(pmi1_->on_fence(values));
                  });
}

void Helper::on_end(const RankHello& hello) {
  if (hello.attempt != attempt_) return;
  waiting_.erase(hello.rank);
  if (pmi1_->is_inside(hello.rank) || (service_ && service_->is_inside(hello.rank)))
    tell({.kind = Notice::Kind::unfinalized, .rank = hello.rank});
  else if (!pmi1_->has_begun(hello.rank) && !(service_ && service_->has_begun(hello.rank)))
    tell({.kind = Notice::Kind::never_begun, .rank = hello.rank});
}

void Helper::tell(Notice notice) {
  if (notice.kind == Notice::Kind::begun && std::exchange(has_told_begun_, true)) return;
  notice.attempt = attempt_;
  notice.time_us =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                     std::chrono::system_clock::now().time_since_epoch())
                                     .count());
  const auto line = notice.to_line();
  [[maybe_unused]] const auto n = ::write(STDOUT_FILENO, line.data(), line.size());
}

void Helper::on_message(std::uint64_t from, std::string_view body) {
  reactor_.post([this, from, message = std::string(body)] {
    if (auto letter = letters_.add(from, message)) on_letter(from, std::move(*letter));
  });
}

void Helper::on_letter(std::uint64_t from, Letter letter) {
  if (letter.kind == Letter::Kind::part || letter.kind == Letter::Kind::whole) {
    exchange_.on_letter(from, std::move(letter));
  } else if (service_) {
    service_->on_letter(from, std::move(letter));
  }
}

void Helper::send(const std::vector<std::uint64_t>& to, const Letter& letter) {
  // Brokers make the copies of a cast. It comes back to this host too, where nobody waits for it.
  const bool is_for_all = to.size() > 1 && to.size() + 1 == options_.hosts;
  for (const auto& message : to_messages(letter)) {
    if (is_for_all) {
      if (auto sent = proc_->cast(proc_->mesh(), kLetterPort, message); !sent)
        std::cerr << "meshbus-mpi: " << sent.error().to_string() << std::endl;
      continue;
    }
    for (const auto host : to) {
      if (auto sent = proc_->send(host, kLetterPort, message); !sent)
        std::cerr << "meshbus-mpi: to host " << host << ": " << sent.error().to_string()
                  << std::endl;
    }
  }
}

int run_helper(const MakeService& make) {
  const auto options = HelperOptions::from_environment();
  if (!options) {
    std::cerr << "meshbus-mpi: " << options.error().to_string() << std::endl;
    return kBadConfiguration;
  }
  auto directory = os::MpiDirectory::make(options->job, options->host);
  if (!directory) {
    std::cerr << "meshbus-mpi: " << directory.error().to_string() << std::endl;
    return kFailed;
  }
  auto helper = std::make_unique<Helper>(*options, std::move(*directory));
  if (auto ready = helper->prepare(make); !ready) {
    std::cerr << "meshbus-mpi: " << ready.error().to_string() << std::endl;
    return kFailed;
  }
  ProcProgram program;
  program.on(kLetterPort, [&helper](Proc& proc, const Incoming& letter) -> Result<std::string> {
    const auto from = proc.rank_of(letter);
    if (from && *from != proc.rank()) helper->on_message(*from, letter.body);
    return std::string();
  });
  program.main([&helper](Proc& proc) {
    helper->run(proc);
    // The directory goes with it. Nothing else is worth an orderly end: libpmix can hang in one.
    helper.reset();
    std::quick_exit(0);
    return 0;
  });
  program.on_stop([&helper](Proc&, const std::string&) { helper->stop(); });
  const auto failed = bootstrap(program);
  std::cerr << "meshbus-mpi: " << failed.error().to_string() << std::endl;
  return kBadConfiguration;
}

}  // namespace meshbus::mpi
