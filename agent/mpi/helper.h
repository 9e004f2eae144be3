#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "agent/mpi/exchange.h"
#include "agent/mpi/letter.h"
#include "agent/mpi/pmi1_server.h"
#include "agent/mpi/rank_door.h"
#include "agent/mpi/rank_layout.h"
#include "agent/mpi/rank_service.h"
#include "agent/os/mpi_directory.h"
#include "common/loop/reactor.h"
#include "meshbus/proc.h"

namespace meshbus::mpi {

/// What the launcher says to a helper by its environment.
struct HelperOptions {
  std::string job;     ///< Names the job; it may be seen by anybody.
  std::string secret;  ///< Known to helpers alone.
  std::uint64_t ranks = 0;
  std::uint64_t host = 0;
  std::uint64_t hosts = 0;

  /// Errors: configuration_error, naming the variable.
  static Result<HelperOptions> from_environment();
};

/// The MPI helper of one host: a mesh proc with one rank on each host of a job, so that its rank is
/// the number of the host. It answers the ranks of its host, and exchanges with the other helpers
/// what they have to know of each other. Its reactor runs on the thread of main().
class Helper {
 public:
  Helper(const HelperOptions& options, os::MpiDirectory directory);
  /// Before the helper is on the bus: the ranks are started when it is. `make` may be empty.
  /// Errors: io_error, and those of `make`.
  Result<void> prepare(const MakeService& make);
  /// Serves until stop().
  void run(Proc& proc);
  /// From any thread: a message of another helper.
  void on_message(std::uint64_t from, std::string_view body);
  /// From any thread.
  void stop() { reactor_.stop(); }

 private:
  Result<void> check(const RankHello& hello);
  void on_hello(const RankHello& hello);
  Result<std::vector<std::string>> environment(std::uint64_t rank);
  void on_line(const RankHello& hello, std::string_view line);
  void on_end(const RankHello& hello);
  void on_letter(std::uint64_t from, Letter letter);
  void carry_out(const Pmi1Server::Outcome& outcome);
  void send(const std::vector<std::uint64_t>& to, const Letter& letter);
  /// The launcher, by a line on stdout. Of the ranks that have begun it hears of one.
  void tell(Notice notice);
  void begin_attempt(std::uint64_t attempt);

  HelperOptions options_;
  RankLayout layout_;
  os::MpiDirectory directory_;
  Reactor reactor_;
  RankDoor door_;
  Exchange exchange_;
  LetterAssembly letters_;
  std::unique_ptr<RankService> service_;
  std::unique_ptr<Pmi1Server> pmi1_;
  std::uint64_t attempt_ = 0;
  bool has_let_in_ = false;  ///< The ranks of this attempt.
  /// Ranks that begin together, until the last one is there: their environments.
  std::map<std::uint64_t, std::vector<std::string>> waiting_;
  std::uint64_t fences_ = 0;
  bool has_told_begun_ = false;  ///< In this attempt.
  Proc* proc_ = nullptr;
};

/// The port on which helpers send each other letters.
inline constexpr std::uint32_t kLetterPort = 1;

/// The whole program: reads the environment, and is a mesh proc until it is told to stop. Returns
/// the exit code.
int run_helper(const MakeService& make);

}  // namespace meshbus::mpi
