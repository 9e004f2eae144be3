#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/host/services/helper_run.h"
#include "agent/host/services/request_checks.h"
#include "wire/lifecycle_generated.h"

namespace meshbus::host {

/// Takes orders to replace the programs of this host (UpgradeHost). Asks the new programs what they
/// are, so that nothing is replaced by what cannot take over; then has the warden do it, which also
/// replaces this agent. Lives on the reactor's thread.
class UpgradeService {
 public:
  /// `ask_warden`: "FOLDER\nREQUESTER", answered through on_warden_answer(). Empty: there is no
  /// warden. All but that outlive it.
  UpgradeService(Reactor& reactor, Bus& bus, RequestChecks& checks,
                 std::function<void(const std::string&)> ask_warden)
      : reactor_(reactor), bus_(bus), checks_(checks), ask_warden_(std::move(ask_warden)) {}

  static void add_rows(Dispatcher& handlers, const std::unique_ptr<UpgradeService>& service);
  /// "ok NUMBER", or why it does not do it.
  void on_warden_answer(std::string_view answer);

 private:
  void on_upgrade_host(const Request& request, const wire::UpgradeHost& message);
  /// The folder of a request, without links. Errors: out_of_range, io_error, refused.
  static Result<std::string> find_folder(const flatbuffers::String* text);
  /// Asks that program of the folder, then the next one.
  void ask(const std::string& program);
  void on_program(const std::string& program, const Result<std::string>& output);
  void refuse(const Error& error);

  Reactor& reactor_;
  Bus& bus_;
  RequestChecks& checks_;
  std::function<void(const std::string&)> ask_warden_;
  struct Order {
    Request request;
    std::string folder;
    std::string requester;
    std::string release;  ///< The agent's.
  };
  std::optional<Order> order_;  ///< The one that is being looked at.
  std::unique_ptr<HelperRun> run_;
};

}  // namespace meshbus::host
