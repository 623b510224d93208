// Decodes graphs: inputs, nodes with their metadata, and the tables of values.
#include "compiler/import/pt2/GraphReader.h"

using namespace lockstep;
using namespace lockstep::pt2;

Status GraphReader::readNodeMetadata(const JsonPlace &place,
                                     NodeMetadata &out) {
  return forEachField(place,
                      [&](const std::string &key, const JsonPlace &value) {
                        if (!value.value().isString())
                          return value.expected("a string");
                        std::string_view text = value.value().getText();
                        if (key == "stack_trace")
                          out.stackTrace = program.intern(text);
                        else if (key == "nn_module_stack")
                          out.moduleStack = program.intern(text);
                        else if (key == "source_fn_stack")
                          out.sourceFnStack = program.intern(text);
                        else if (key == "torch_fn")
                          out.torchFn = program.intern(text);
                        return Status::success();
                      });
}

Status GraphReader::readNode(const JsonPlace &place, Node &out) {
  std::string target;
  LOCKSTEP_RETURN_IF_ERROR(readField(place, "target", target));
  if (target.empty())
    return place.error("expected the name of an operator in 'target'");
  out.target = program.intern(target);
  LOCKSTEP_RETURN_IF_ERROR(readOptionalField(place, "name", out.name));
  LOCKSTEP_RETURN_IF_ERROR(field(place, "inputs", [&](const JsonPlace &inputs) {
    return readArray(
        inputs, out.inputs, [&](const JsonPlace &input, NamedArgument &named) {
          LOCKSTEP_RETURN_IF_ERROR(readField(input, "name", named.name));
          int64_t kind = 0;
          LOCKSTEP_RETURN_IF_ERROR(readOptionalField(input, "kind", kind));
          if (kind < 0 || kind > 2)
            return input.error("unknown argument kind " + std::to_string(kind));
          named.kind = static_cast<NamedArgument::Kind>(kind);
          return field(input, "arg", [&](const JsonPlace &argument) {
            return readArgument(argument, named.value);
          });
        });
  }));
  LOCKSTEP_RETURN_IF_ERROR(
      field(place, "outputs", [&](const JsonPlace &outputs) {
        return readArray(outputs, out.outputs,
                         [&](const JsonPlace &output, Argument &value) {
                           return readArgument(output, value);
                         });
      }));
  return optionalField(place, "metadata", [&](const JsonPlace &metadata) {
    return readNodeMetadata(metadata, out.metadata);
  });
}

Status GraphReader::readSymbolTables(const JsonPlace &place, Graph &out) {
  LOCKSTEP_RETURN_IF_ERROR(
      optionalField(place, "sym_int_values", [&](const JsonPlace &table) {
        return forEachField(
            table, [&](const std::string &name, const JsonPlace &value) {
              return readSymInt(value, out.symIntValues[name]);
            });
      }));
  auto readValue = [&](const JsonPlace &place, const char *constantKind,
                       auto &out) {
    return readUnion(
        place, [&](const std::string &kind, const JsonPlace &value) -> Status {
          if (kind == constantKind)
            return read(value, out.value);
          if (kind != "as_expr")
            return place.error("unknown kind '" + kind.substr(0, 80) +
                               "' of a symbolic value");
          std::shared_ptr<const SymInt::Symbolic> symbolic;
          LOCKSTEP_RETURN_IF_ERROR(readSymExpr(value, symbolic));
          out.expr = std::shared_ptr<const SymExpr>(symbolic, &symbolic->expr);
          return Status::success();
        });
  };
  LOCKSTEP_RETURN_IF_ERROR(
      optionalField(place, "sym_bool_values", [&](const JsonPlace &table) {
        return forEachField(
            table, [&](const std::string &name, const JsonPlace &value) {
              return readValue(value, "as_bool", out.symBoolValues[name]);
            });
      }));
  LOCKSTEP_RETURN_IF_ERROR(
      optionalField(place, "sym_float_values", [&](const JsonPlace &table) {
        return forEachField(
            table, [&](const std::string &name, const JsonPlace &value) {
              return readValue(value, "as_float", out.symFloatValues[name]);
            });
      }));
  return optionalField(place, "custom_obj_values", [&](const JsonPlace &table) {
    return forEachField(
        table, [&](const std::string &name, const JsonPlace &value) {
          return readField(value, "class_fqn", out.customObjects[name]);
        });
  });
}

Status GraphReader::readGraph(const JsonPlace &place, Graph &out) {
  auto arguments = [&](std::vector<Argument> &list) {
    return [&](const JsonPlace &inner) {
      return readArray(inner, list,
                       [&](const JsonPlace &element, Argument &value) {
                         return readArgument(element, value);
                       });
    };
  };
  LOCKSTEP_RETURN_IF_ERROR(field(place, "inputs", arguments(out.inputs)));
  LOCKSTEP_RETURN_IF_ERROR(field(place, "outputs", arguments(out.outputs)));
  LOCKSTEP_RETURN_IF_ERROR(field(place, "nodes", [&](const JsonPlace &nodes) {
    return readArray(nodes, out.nodes,
                     [&](const JsonPlace &element, Node &node) {
                       return readNode(element, node);
                     });
  }));
  LOCKSTEP_RETURN_IF_ERROR(
      field(place, "tensor_values", [&](const JsonPlace &table) {
        out.tensorValues.reserve(table.value().size());
        return forEachField(
            table, [&](const std::string &name, const JsonPlace &meta) {
              return readTensorMeta(meta, out.tensorValues[name]);
            });
      }));
  LOCKSTEP_RETURN_IF_ERROR(readSymbolTables(place, out));
  return readOptionalField(place, "is_single_tensor_return",
                           out.isSingleTensorReturn);
}
