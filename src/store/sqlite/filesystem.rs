//! Refuses network file systems, as far as the system names them.

use std::path::Path;

use super::StoreError;

/// Refuses a path that Linux lists under a network file system. Elsewhere nothing is known.
pub(super) fn check(path: &Path) -> Result<(), StoreError> {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    match folder.and_then(|folder| network(&mounts, &folder)) {
        None => Ok(()),
        Some(kind) => Err(StoreError::Unusable(format!(
            "{} lies on a network file system ({kind}): write-ahead logging needs memory that all \
             processes share; put the file on a local disk, or use PostgreSQL",
            path.display()
        ))),
    }
}

/// The kind of the file system under a folder, if it is one that several hosts may share. Of two mounts
/// at one place the later one is seen.
fn network<'a>(mounts: &'a str, folder: &Path) -> Option<&'a str> {
    let mounts = mounts.lines().filter_map(|line| {
        // proc_pid_mountinfo(5): "36 35 98:0 / /mnt rw,noatime shared:1 - ext3 /dev/root rw".
        let (mount, system) = line.split_once(" - ")?;
        let point = unescaped(mount.split(' ').nth(4)?);
        folder.starts_with(&point).then_some((point.len(), system.split(' ').next()?))
    });
    let (_, kind) = mounts.max_by_key(|(length, _)| *length)?;
    let shared = [
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse", "gpfs", "lustre", "ncpfs", "nfs",
        "nfs4", "orangefs", "smb3", "smbfs",
    ];
    (shared.contains(&kind) || kind.starts_with("fuse.")).then_some(kind)
}

/// Blanks and the like are written as three octal digits.
fn unescaped(point: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .into_iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(point.to_owned(), |point, (code, character)| point.replace(code, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_hosts_may_share_is_refused() {
        let mounts = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:27 / /mnt/share rw,relatime shared:9 - nfs4 host:/export rw,vers=4.2
31 30 0:28 / /mnt/share/local rw - xfs /dev/vdb rw
32 22 0:29 / /mnt/with\\040blank rw - cifs //host/share rw
33 22 0:30 / /home/me/remote rw - fuse.sshfs host: rw
34 22 8:17 / /media/stick rw - fuseblk /dev/sdb1 rw
35 22 0:31 / /tmp rw - tmpfs tmpfs rw
36 35 0:32 / /tmp rw - nfs host:/tmp rw
not a line";
        for (folder, kind) in [
            ("/var/lib/app", None),
            ("/mnt", None),
            ("/mnt/share", Some("nfs4")),
            ("/mnt/share/deep/down", Some("nfs4")),
            ("/mnt/shared", None),
            ("/mnt/share/local/x", None),
            ("/mnt/with blank", Some("cifs")),
            ("/home/me/remote/x", Some("fuse.sshfs")),
            ("/media/stick", None),
            ("/tmp/x", Some("nfs")),
        ] {
            assert_eq!(network(mounts, Path::new(folder)), kind, "{folder}");
        }
        assert_eq!(network("", Path::new("/")), None, "nothing is known");
    }
}
