//! Circles of files: a graph of one crate's files, an edge for each name that one file takes from another, and the
//! groups of files that can all be reached from one another.
//!
//! A name counts for the file that defines it: `use super::POD`, where `mod.rs` only says `pub use pod::POD`, is an
//! edge to `pod.rs`. A re-export is an edge only if the file that re-exports a name also uses it. Code of tests is left
//! out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Files that use each other directly or through others, sorted, and the edges between them.
#[derive(Debug, PartialEq)]
pub struct Circle {
    pub files: Vec<String>,
    pub edges: Vec<(String, String)>,
}

/// The circles of the crate whose root file is given: `src/lib.rs`. Files are named from the root's folder.
pub fn circles(root: &Path) -> Vec<Circle> {
    let krate = Crate::read(root);
    let edges = krate.edges();
    let mut left: BTreeSet<&String> = edges.keys().collect();
    let mut found = Vec::new();
    while let Some(first) = left.pop_first() {
        let there = reached(&edges, first);
        let files: Vec<String> = there.iter().filter(|file| reached(&edges, file).contains(first)).cloned().collect();
        if files.len() < 2 {
            continue;
        }
        files.iter().for_each(|file| _ = left.remove(file));
        let of = |file: &String| {
            edges[file].iter().filter(|to| files.contains(to)).map(|to| (file.clone(), to.clone())).collect::<Vec<_>>()
        };
        found.push(Circle { edges: files.iter().flat_map(of).collect(), files });
    }
    found
}

type Edges = BTreeMap<String, BTreeSet<String>>;

/// The files that lie behind a file, however many edges away; the file itself only on a circle.
fn reached(edges: &Edges, from: &String) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut next = vec![from];
    while let Some(file) = next.pop() {
        next.extend(edges.get(file).into_iter().flatten().filter(|to| seen.insert((*to).clone())));
    }
    seen
}

/// The path of a module from the crate's root: `["store", "journal"]`.
type ModulePath = Vec<String>;

#[derive(Default)]
struct Module {
    file: String,
    /// Names that are defined here.
    items: BTreeSet<String>,
    children: BTreeSet<String>,
    imports: Vec<Import>,
    /// Paths in the code, one name or several.
    mentions: BTreeSet<Vec<String>>,
}

struct Import {
    /// The name it has here; None for `*`.
    name: Option<String>,
    path: Vec<String>,
    is_public: bool,
}

/// A name's meaning.
enum Meaning {
    Module(ModulePath),
    /// Defined in this file.
    Item(String),
}

#[derive(Default)]
struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

impl Crate {
    fn read(root: &Path) -> Crate {
        let mut krate = Crate::default();
        let folder = root.parent().expect("a file stands in a folder");
        krate.read_file(folder, root.to_owned(), folder.to_owned(), Vec::new());
        krate
    }

    /// `children`: the folder in which the files of its modules stand.
    fn read_file(&mut self, top: &Path, path: PathBuf, children: PathBuf, module: ModulePath) {
        let text = fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        let file = path.strip_prefix(top).expect("below the root's folder").to_string_lossy().into_owned();
        let mut files = Vec::new();
        self.read_module(&file, &module, &tokens(&text), &mut files);
        for name in files {
            // Of a module in braces: `flat::lists` stands in `flat/lists.rs`.
            let inside =
                name[module.len()..name.len() - 1].iter().fold(children.clone(), |folder, name| folder.join(name));
            let own = inside.join(name.last().expect("a module has a name"));
            let (flat, deep) = (own.with_extension("rs"), own.join("mod.rs"));
            self.read_file(top, if flat.exists() { flat } else { deep }, own, name);
        }
    }

    /// `files`: modules that stand in files of their own.
    fn read_module(&mut self, file: &str, at: &ModulePath, tokens: &[String], files: &mut Vec<ModulePath>) {
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        let word = |at: usize| tokens.get(at).map_or("", String::as_str);
        let (mut depth, mut i) = (0, 0);
        while i < tokens.len() {
            match word(i) {
                "#" if tokens[i..].starts_with(&["#", "[", "cfg", "(", "test", ")", "]"].map(str::to_owned)) => {
                    i = behind_item(tokens, i + 7);
                    continue;
                }
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                "use" => {
                    let end = i + tokens[i..].iter().position(|token| token == ";").expect("a use ends");
                    let is_public = i > 0 && (word(i - 1) == "pub" || word(i - 1) == ")");
                    use_tree(&tokens[i + 1..end], &[], is_public, &mut module.imports);
                    i = end;
                }
                "mod" if is_name(word(i + 1)) && matches!(word(i + 2), ";" | "{") => {
                    let child = [at.as_slice(), &[word(i + 1).to_owned()]].concat();
                    module.children.insert(word(i + 1).to_owned());
                    if word(i + 2) == ";" {
                        files.push(child);
                        i += 2;
                    } else {
                        let end = behind_item(tokens, i);
                        self.read_module(file, &child, &tokens[i + 3..end - 1], files);
                        i = end - 1;
                    }
                }
                "fn" | "struct" | "enum" | "trait" | "const" | "static" | "type" | "union" if is_name(word(i + 1)) => {
                    if depth == 0 {
                        module.items.insert(word(i + 1).to_owned());
                    }
                    // A `const fn` has its name behind the next word.
                    i += usize::from(word(i + 1) != "fn");
                }
                name if is_name(name) => {
                    let mut path = vec![name.to_owned()];
                    let first = i;
                    while word(i + 1) == "::" && is_name(word(i + 2)) {
                        path.push(word(i + 2).to_owned());
                        i += 2;
                    }
                    // A field, a method, a name that is given here, and a path of another crate.
                    let is_other = first > 0 && matches!(word(first - 1), "." | "let" | "mut" | "ref" | "::");
                    // Alone it says from where something can be seen: `pub(super)`.
                    let is_visibility = path.len() == 1 && matches!(name, "crate" | "super" | "self");
                    if !is_other && !is_visibility && (path.len() > 1 || word(i + 1) != ":") {
                        module.mentions.insert(path);
                    }
                }
                _ => {}
            }
            i += 1;
        }
        self.modules.insert(at.clone(), module);
    }

    fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (at, module) in &self.modules {
            let to = edges.entry(module.file.clone()).or_default();
            let imports = module
                .imports
                .iter()
                .filter(|import| !import.is_public && import.name.is_some())
                .map(|import| &import.path);
            // A single name in the code may be a variable's, which can be that of a module: modules stand in paths
            // alone.
            let single = module.mentions.iter().filter(|path| path.len() == 1);
            let items =
                single.filter(|path| matches!(self.meaning(at, path, &mut BTreeSet::new()), Some(Meaning::Item(_))));
            let paths = module.mentions.iter().filter(|path| path.len() > 1);
            for path in imports.chain(items).chain(paths) {
                to.extend(self.file_of(at, path).filter(|file| *file != module.file));
            }
        }
        edges
    }

    /// The file that defines what a path names.
    fn file_of(&self, from: &ModulePath, path: &[String]) -> Option<String> {
        match self.meaning(from, path, &mut BTreeSet::new())? {
            Meaning::Item(file) => Some(file),
            Meaning::Module(module) => Some(self.modules[&module].file.clone()),
        }
    }

    /// `asked`: names that are being looked up; imports may be circles too.
    fn meaning(
        &self,
        from: &ModulePath,
        path: &[String],
        asked: &mut BTreeSet<(ModulePath, String)>,
    ) -> Option<Meaning> {
        let mut at = from.clone();
        for (n, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" if n == 0 => at = Vec::new(),
                "self" if n == 0 => {}
                // `use a::{self}` means `a`.
                "self" => break,
                "super" => _ = at.pop()?,
                _ => match self.lookup(&at, name, asked)? {
                    Meaning::Module(module) => at = module,
                    // What comes behind a type is defined where nobody can see it, mostly with the type.
                    item => return Some(item),
                },
            }
        }
        Some(Meaning::Module(at))
    }

    fn lookup(&self, at: &ModulePath, name: &str, asked: &mut BTreeSet<(ModulePath, String)>) -> Option<Meaning> {
        let question = (at.clone(), name.to_owned());
        if !asked.insert(question.clone()) {
            return None;
        }
        let meaning = self.found_in(self.modules.get(at)?, at, name, asked);
        asked.remove(&question);
        meaning
    }

    fn found_in(
        &self,
        module: &Module,
        at: &ModulePath,
        name: &str,
        asked: &mut BTreeSet<(ModulePath, String)>,
    ) -> Option<Meaning> {
        if module.children.contains(name) {
            return Some(Meaning::Module([at.as_slice(), &[name.to_owned()]].concat()));
        }
        if module.items.contains(name) {
            return Some(Meaning::Item(module.file.clone()));
        }
        let mut named = module.imports.iter().filter(|import| import.name.as_deref() == Some(name));
        let mut globs = module.imports.iter().filter(|import| import.name.is_none());
        named.find_map(|import| self.meaning(at, &import.path, asked)).or_else(|| {
            globs.find_map(|import| match self.meaning(at, &import.path, asked)? {
                Meaning::Module(module) => self.lookup(&module, name, asked),
                Meaning::Item(_) => None,
            })
        })
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The place behind the item that begins here: behind its last brace or its semicolon.
fn behind_item(tokens: &[String], from: usize) -> usize {
    let mut depth = 0;
    let ends_so = tokens[from..].iter().take(4).any(|token| ["use", "const", "static"].contains(&token.as_str()));
    let is_function = tokens[from..].iter().take(4).any(|token| token == "fn");
    for (n, token) in tokens[from..].iter().enumerate() {
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth -= 1;
                if depth == 0 && token == "}" && (!ends_so || is_function) {
                    return from + n + 1;
                }
            }
            ";" if depth == 0 => return from + n + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// The leaves of what stands between `use` and its semicolon.
fn use_tree(tokens: &[String], before: &[String], is_public: bool, into: &mut Vec<Import>) {
    let mut path = before.to_vec();
    let mut i = 0;
    while let Some(token) = tokens.get(i) {
        match token.as_str() {
            "::" => {}
            "*" => return into.push(Import { name: None, path, is_public }),
            "{" => {
                return branches(&tokens[i + 1..tokens.len() - 1])
                    .for_each(|branch| use_tree(branch, &path, is_public, into));
            }
            "as" => return into.push(Import { name: Some(tokens[i + 1].clone()), path, is_public }),
            name => path.push(name.to_owned()),
        }
        i += 1;
    }
    let name = path.iter().rfind(|name| *name != "self").cloned();
    if name.is_some() && path.len() > before.len() {
        into.push(Import { name, path, is_public });
    }
}

/// Parted by the commas outside of inner braces.
fn branches(tokens: &[String]) -> impl Iterator<Item = &[String]> {
    let mut depth = 0;
    tokens.split(move |token| {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        token == "," && depth == 0
    })
}

/// Names, `::` and single signs. Comments, texts, numbers, characters and lifetimes are left out.
fn tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut found = Vec::new();
    let mut i = 0;
    while i < chars.len() {
        match chars[i] {
            '/' if at(i + 1) == '/' => i += chars[i..].iter().take_while(|c| **c != '\n').count(),
            '/' if at(i + 1) == '*' => i = behind_comment(&chars, i),
            'r' | 'b' if behind_raw_text(&chars, i).is_some() => {
                i = behind_raw_text(&chars, i).expect("asked just now")
            }
            '"' => i = behind_text(&chars, i),
            '\'' => i = behind_quote(&chars, i),
            ':' if at(i + 1) == ':' => {
                found.push("::".to_owned());
                i += 2;
            }
            c if c.is_alphanumeric() || c == '_' => {
                let word: String = chars[i..].iter().take_while(|c| c.is_alphanumeric() || **c == '_').collect();
                i += word.chars().count();
                if is_name(&word) {
                    found.push(word);
                }
            }
            c => {
                if !c.is_whitespace() {
                    found.push(c.to_string());
                }
                i += 1;
            }
        }
    }
    found
}

fn behind_comment(chars: &[char], from: usize) -> usize {
    let (mut depth, mut i) = (0, from);
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                i += 1;
                continue;
            }
        }
        i += 2;
        if depth == 0 {
            return i;
        }
    }
    chars.len()
}

/// `r"…"`, `r#"…"#`, `br"…"`; None: it is something else.
fn behind_raw_text(chars: &[char], from: usize) -> Option<usize> {
    if from > 0 && (chars[from - 1].is_alphanumeric() || chars[from - 1] == '_') {
        return None;
    }
    let r = from + usize::from(chars[from] == 'b');
    let hashes = chars.get(r + 1..)?.iter().take_while(|c| **c == '#').count();
    if chars.get(r) != Some(&'r') || chars.get(r + 1 + hashes) != Some(&'"') {
        return None;
    }
    let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let inside = r + 2 + hashes;
    chars[inside..].windows(end.len()).position(|part| part == end).map(|n| inside + n + end.len())
}

fn behind_text(chars: &[char], from: usize) -> usize {
    let mut i = from + 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

/// A character, or a lifetime.
fn behind_quote(chars: &[char], from: usize) -> usize {
    match (chars.get(from + 1), chars.get(from + 2)) {
        (Some('\\'), _) => from + 3 + chars[from + 3..].iter().take_while(|c| **c != '\'').count() + 1,
        (_, Some('\'')) => from + 3,
        _ => from + 1 + chars[from + 1..].iter().take_while(|c| c.is_alphanumeric() || **c == '_').count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of files below a folder of its own.
    fn tree(name: &str, files: &[(&str, &str)]) -> Vec<Circle> {
        let top = std::env::temp_dir().join(format!("coracle-circles-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = top.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = circles(&top.join("lib.rs"));
        fs::remove_dir_all(top).unwrap();
        found
    }

    fn check(name: &str, files: &[(&str, &str)], expected: &[&[&str]]) {
        let found = tree(name, files);
        assert_eq!(
            found.iter().map(|circle| circle.files.iter().map(String::as_str).collect()).collect::<Vec<Vec<_>>>(),
            expected,
            "{name}"
        );
    }

    #[test]
    fn paths_of_every_form() {
        for (name, a) in [
            ("use-super", "use super::b::two; pub fn one() { two() }"),
            ("use-crate", "use crate::b::{self, two as other}; pub fn one() { other() }"),
            ("inline-super", "pub fn one() { super::b::two() }"),
            ("inline-crate", "pub fn one() -> u8 { 1 + crate::b::two() }"),
            ("re-exported", "use super::two; pub fn one() { two() }"),
            ("renamed", "use super::deux; pub fn one() { deux() }"),
            ("glob", "use super::*; pub fn one() { two() }"),
            ("nested", "use super::{c::{three}, b::{two}}; pub fn one() { two(three()) }"),
            ("type", "pub fn one() { super::Two::made() }"),
            ("in-a-function", "pub fn one() { use super::b; b::two() }"),
            ("in-braces", "mod inner { pub fn one() { super::super::b::two() } } pub use inner::one;"),
        ] {
            let lib = "mod a; mod b; mod c; pub use b::{two, two as deux, Two}; pub use a::one;";
            let b = "use crate::one; pub struct Two; pub fn two() { one() }";
            check(
                name,
                &[("lib.rs", lib), ("a.rs", a), ("b.rs", b), ("c.rs", "pub fn three() {}")],
                &[&["a.rs", "b.rs"]],
            );
        }
    }

    #[test]
    fn what_is_no_circle() {
        for (name, lib, a) in [
            ("comment", "", "// super::b::two\n/* /* */ super::b::two() */ pub fn one() {}"),
            ("text", "", r##"pub fn one() -> &'static str { r#""super::b::two"#; 'x'; '"'; "\"super::b::two()" }"##),
            ("test", "", "pub fn one() {}\n#[cfg(test)]\nmod tests { use super::super::b::two; }"),
            ("test-import", "", "#[cfg(test)]\nuse super::b::{two};\npub fn one() {}"),
            ("other-crate", "", "use std::b::two; pub fn one() { ::b::two() }"),
            ("method", "", "use super::*; pub fn one(x: u8) { x.two(); x.b }"),
            ("variable", "fn f() { let x = 1; a + x }", "use super::*; pub fn one(x: u8) { b + x }"),
            ("visibility", "", "pub(super) fn one() {} pub(crate) fn other() {}"),
            ("only-re-exported", "pub use b::two;", "pub fn one() {}"),
        ] {
            let lib = format!("mod a; mod b; {lib} pub struct Top; fn top() {{ b::two() }}");
            let b = "use super::a; pub fn two() { a::one() }";
            check(name, &[("lib.rs", &lib), ("a.rs", a), ("b.rs", b)], &[]);
        }
    }

    #[test]
    fn longer_ones_and_folders() {
        let lib = "pub mod store; pub mod serve; pub struct Top;";
        let store = "mod journal; pub mod file; pub use journal::Journal; pub(crate) use file::File;";
        let journal =
            "pub mod line; use crate::serve::Serve; pub struct Journal; impl Journal { fn x() { line::LINE; } }";
        let line = "use super::super::File; pub const LINE: u8 = 1;";
        let file = "pub struct File; use crate::Top;";
        let serve = "use crate::store::{Journal, file}; pub struct Serve; fn f() { file::File }";
        let files = [
            ("lib.rs", lib),
            ("store/mod.rs", store),
            ("store/journal/mod.rs", journal),
            ("store/journal/line.rs", line),
            ("store/file.rs", file),
            ("serve.rs", serve),
        ];
        check("folders", &files, &[&["serve.rs", "store/journal/mod.rs"]]);
        // Three files, each of which uses the next.
        let file = "pub struct File; use crate::serve::Serve;";
        let found = tree("longer", &[&files[..4], &[("store/file.rs", file), files[5]]].concat());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].files, ["serve.rs", "store/file.rs", "store/journal/line.rs", "store/journal/mod.rs"]);
        assert!(
            found[0].edges.contains(&("store/journal/line.rs".to_owned(), "store/file.rs".to_owned())),
            "{found:?}"
        );
        // A facade that uses what it re-exports is part of a circle.
        let store = format!("{store} pub struct Names; fn f(x: File) {{}}");
        let file = "pub struct File; use super::Names;";
        let files = [files[0], ("store/mod.rs", &store), files[2], files[3], ("store/file.rs", file), files[5]];
        assert!(tree("facade", &files).iter().any(|circle| circle.files == ["store/file.rs", "store/mod.rs"]));
    }
}
