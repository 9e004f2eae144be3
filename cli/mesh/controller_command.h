#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace meshbus::cli {

class Commands;
/// `meshbus controller`
void add_controller(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
