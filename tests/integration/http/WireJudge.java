import com.squareup.wire.schema.Location;
import com.squareup.wire.schema.internal.parser.EnumConstantElement;
import com.squareup.wire.schema.internal.parser.EnumElement;
import com.squareup.wire.schema.internal.parser.ExtendElement;
import com.squareup.wire.schema.internal.parser.FieldElement;
import com.squareup.wire.schema.internal.parser.GroupElement;
import com.squareup.wire.schema.internal.parser.MessageElement;
import com.squareup.wire.schema.internal.parser.OneOfElement;
import com.squareup.wire.schema.internal.parser.OptionElement;
import com.squareup.wire.schema.internal.parser.ProtoFileElement;
import com.squareup.wire.schema.internal.parser.ProtoParser;
import com.squareup.wire.schema.internal.parser.ServiceElement;
import com.squareup.wire.schema.internal.parser.TypeElement;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;

/**
 * Parses texts with Wire and prints its elements in the order of Confluent's registry. Each line of standard input is a text in
 * base64. Each line of standard output is the printed text in base64, or "!" and a message.
 *
 * Wire prints single options, ranges and enum constants itself. It does not escape strings, so they are escaped before.
 */
public final class WireJudge {
  public static void main(String[] arguments) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, false, "UTF-8");
    for (String line; (line = in.readLine()) != null; ) {
      String text = new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8);
      try {
        String printed = file(ProtoParser.Companion.parse(Location.get(""), text));
        out.println(Base64.getEncoder().encodeToString(printed.getBytes(StandardCharsets.UTF_8)));
      } catch (RuntimeException | AssertionError error) {
        out.println("!" + String.valueOf(error.getMessage()).replace('\n', ' '));
      }
    }
    out.flush();
  }

  static String file(ProtoFileElement file) {
    StringBuilder head = new StringBuilder();
    if (file.getSyntax() != null) {
      head.append("syntax = \"").append(file.getSyntax()).append("\";\n");
    }
    if (file.getPackageName() != null) {
      head.append("package ").append(file.getPackageName()).append(";\n");
    }
    List<String> imports = new ArrayList<>();
    file.getImports().forEach(each -> imports.add("import \"" + each + "\";\n"));
    file.getPublicImports().forEach(each -> imports.add("import public \"" + each + "\";\n"));
    List<String> extensions = new ArrayList<>();
    file.getExtendDeclarations().forEach(each -> extensions.add(extend(each)));
    List<String> services = new ArrayList<>();
    file.getServices().forEach(each -> services.add(service(each)));
    for (List<String> section :
        List.of(imports, statements(file.getOptions()), types(file.getTypes()), extensions, services)) {
      if (!section.isEmpty()) {
        head.append('\n');
        section.forEach(head::append);
      }
    }
    return head.toString();
  }

  static List<String> types(List<TypeElement> types) {
    List<String> printed = new ArrayList<>();
    types.stream().filter(each -> each instanceof MessageElement).forEach(each -> printed.add(message((MessageElement) each)));
    types.stream().filter(each -> each instanceof EnumElement).forEach(each -> printed.add(enumeration((EnumElement) each)));
    return printed;
  }

  /** What is in braces: indented sections with an empty line between two, which a block around it indents again. */
  static String block(String head, List<List<String>> sections) {
    StringBuilder inner = new StringBuilder();
    for (List<String> section : sections) {
      if (!section.isEmpty()) {
        inner.append('\n').append(indented(String.join("", section)));
      }
    }
    return head + " {" + inner + "}\n";
  }

  static String indented(String text) {
    StringBuilder out = new StringBuilder();
    for (String line : text.split("\n")) {
      out.append("  ").append(line).append('\n');
    }
    return out.toString();
  }

  static String message(MessageElement message) {
    List<String> reserved = new ArrayList<>();
    message.getReserveds().forEach(each -> reserved.add(each.copy(each.getLocation(), "", each.getValues()).toSchema()));
    List<String> oneofs = new ArrayList<>();
    message.getOneOfs().forEach(each -> oneofs.add(oneof(each)));
    List<String> ranges = new ArrayList<>();
    message.getExtensions().forEach(each -> ranges.add(each.copy(each.getLocation(), "", each.getValues()).toSchema()));
    List<String> extensions = new ArrayList<>();
    message.getExtendDeclarations().forEach(each -> extensions.add(extend(each)));
    return block(
        "message " + message.getName(),
        List.of(
            reserved,
            statements(message.getOptions()),
            fields(message.getFields()),
            oneofs,
            groups(message.getGroups()),
            ranges,
            extensions,
            types(message.getNestedTypes())));
  }

  static String enumeration(EnumElement type) {
    List<String> lines = new ArrayList<>();
    type.getReserveds().forEach(each -> lines.add(each.copy(each.getLocation(), "", each.getValues()).toSchema()));
    lines.addAll(statements(type.getOptions()));
    for (EnumConstantElement each : type.getConstants()) {
      lines.add(each.copy(each.getLocation(), each.getName(), each.getTag(), "", escaped(each.getOptions())).toSchema());
    }
    return block("enum " + type.getName(), List.of(lines));
  }

  static String extend(ExtendElement extend) {
    return block("extend " + extend.getName(), List.of(fields(extend.getFields())));
  }

  static String oneof(OneOfElement oneof) {
    return block(
        "oneof " + oneof.getName(),
        List.of(statements(oneof.getOptions()), fields(oneof.getFields()), groups(oneof.getGroups())));
  }

  static List<String> groups(List<GroupElement> groups) {
    List<String> printed = new ArrayList<>();
    for (GroupElement each : groups) {
      String label = each.getLabel() == null ? "" : each.getLabel().name().toLowerCase() + " ";
      printed.add(block(label + "group " + each.getName() + " = " + each.getTag(), List.of(fields(each.getFields()))));
    }
    return printed;
  }

  static List<String> fields(List<FieldElement> fields) {
    List<String> printed = new ArrayList<>();
    for (FieldElement each : fields) {
      printed.add(
          each.copy(
                  each.getLocation(),
                  each.getLabel(),
                  each.getType(),
                  each.getName(),
                  each.getDefaultValue() == null ? null : escaped(each.getDefaultValue()),
                  each.getJsonName() == null ? null : escaped(each.getJsonName()),
                  each.getTag(),
                  "",
                  escaped(each.getOptions()))
              .toSchema());
    }
    return printed;
  }

  static String service(ServiceElement service) {
    List<String> rpcs = new ArrayList<>();
    service.getRpcs()
        .forEach(
            each ->
                rpcs.add(
                    each.copy(
                            each.getLocation(),
                            each.getName(),
                            "",
                            each.getRequestType(),
                            each.getResponseType(),
                            each.getRequestStreaming(),
                            each.getResponseStreaming(),
                            escaped(each.getOptions()))
                        .toSchema()));
    return block("service " + service.getName(), List.of(statements(service.getOptions()), rpcs));
  }

  static List<String> statements(List<OptionElement> options) {
    List<String> printed = new ArrayList<>();
    escaped(options).forEach(each -> printed.add(each.toSchemaDeclaration()));
    return printed;
  }

  static List<OptionElement> escaped(List<OptionElement> options) {
    List<OptionElement> found = new ArrayList<>();
    options.forEach(each -> found.add((OptionElement) escapedValue(each)));
    return found;
  }

  static Object escapedValue(Object value) {
    if (value instanceof OptionElement) {
      OptionElement option = (OptionElement) value;
      return option.copy(option.getName(), option.getKind(), escapedValue(option.getValue()), option.isParenthesized());
    }
    if (value instanceof Map) {
      Map<String, Object> found = new java.util.LinkedHashMap<>();
      ((Map<?, ?>) value).forEach((key, each) -> found.put((String) key, escapedValue(each)));
      return found;
    }
    if (value instanceof List) {
      List<Object> found = new ArrayList<>();
      ((List<?>) value).forEach(each -> found.add(escapedValue(each)));
      return found;
    }
    return value instanceof String ? escaped((String) value) : value;
  }

  static String escaped(String text) {
    StringBuilder out = new StringBuilder();
    String plain = "\u0007\b\f\n\r\t\u000b\\'\"";
    String letters = "abfnrtv\\'\"";
    for (char each : text.toCharArray()) {
      int at = plain.indexOf(each);
      out.append(at < 0 ? String.valueOf(each) : "\\" + letters.charAt(at));
    }
    return out.toString();
  }
}
