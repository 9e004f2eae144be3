#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace meshbus::cli {

class Commands;
/// `meshbus stop`
void add_stop(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
