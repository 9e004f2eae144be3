#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace meshbus::cli {

class Commands;
/// `meshbus host`: serves this machine.
void add_host(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
