//! Findings with segments that were named before they were needed.

use super::replay;

/// A single read error of a first batch was taken for damage.
#[test]
fn first_batch_that_is_unreadable_once_is_no_damage() {
    replay(
        "seed 363d86f5 binary 5120 | confirmed name-ahead ; a638 a829 ; ; close | synced \
         keep:0 ; ; @80 read-error:9791 ; close",
    );
}

/// A crash undid the removal of a segment without batches, but not the removal of its table.
#[test]
fn table_does_not_go_before_its_segment() {
    replay(
        "seed 36d624a6 binary 7168 | synced ; ; ; power@215 sector:a090 | synced ahead reuse \
         in-flight:4 ring:6144 ; a811 a582 a10 / a245 a170 a799 a743 ; ; power@288 byte:37de \
         probe 8:d1eb | synced ahead reuse name-ahead in-flight:3 ring:6144 ; u6 a791 / y \
         a878 a945 / a541 a917 u916 a910 a230 f / a412 g2 / a764 o f a945 a787 ; ; close \
         probe 8:681c | synced reuse name-ahead ; x8 / c o a925 a722 y a529 / u344 a856 p0 g0 \
         / a143 a462 a323 a528 / a478 a543 a709 ; ; power@8 sector:a79c probe 8:73d",
    );
}

/// A poisoned log named another segment ahead, which was later taken for the successor of a lost
/// segment.
#[test]
fn poisoned_log_names_no_segment() {
    replay(
        "seed 36d625fb binary 10240 | synced idle ring:3072 parity:2+1 ; / a10 e / a702 a405 \
         a652 a542 a600 ; @115 failed-sync:f028 @69 failed-sync:d25f @86 failed-sync:25fa \
         @76p read-error:5759 @43p lasting-error:cf1a ; drop protect 2+1 power@11 byte:5c17 \
         probe 8:44da | confirmed ahead reuse name-ahead in-flight:3 ; / a948 a705 ; @70 \
         failed-sync:7204 ; drop protect 4+2 power@14 sector:5517 harm-parity garbage/512:13f \
         probe 8:3 mend 3:58be",
    );
}

/// A segment was lost below one without batches, and records of an older segment came back.
#[test]
fn segment_lost_below_one_that_has_not_begun_is_missed() {
    replay(
        "seed 376eb418 binary 5120 | buffered reuse ring:0 ; a10 a570 a726 a717 a552 x0 / \
         a772 a942 l a790 a835 / a402 x7 a783 a939 a867 a695 p2 s86+92 / a321 a618 a890 / \
         a754 a516 a933 / a161 a850 a703 a892 / a1 p0 a799 u147 a776 a807 ; ; kill@314 probe \
         8:7e0d | buffered ; l p0 a719 / a852 a951 a751 y p2 a946 s77+98+20 / a881 a811 / \
         a419 l a644 s99+9+38 a827 / a732 s26 a754 a533 p2 p0 x4 s90+183 / a813 a584 s6+16 \
         a750 s71+1+19+52 / / a946 a893 a930 a804 a665 a381 / a719 a14 a840 l a814 a939 s191 \
         / a708 a709 a554 / a716 a871 p2 l s190+11+63 a92 a19 / a857 a556 a825 u297 p0 s27+72 \
         a880 a790 / a702 a849 x0 x0 a5 a324 ; ; power@60 byte:793e probe 8:d60 | buffered \
         reuse name-ahead ; p3 a878 u193 a943 a721 a697 / / a959 a463 a909 x3 / a955 a256 \
         u924 a920 / p1 l a917 a654 / a557 a811 ; ; power@683 byte:cb36 probe 8:8bc9 | \
         buffered reuse name-ahead ring:9216 ; / u93 a628 ; ; power@9 page:7bfd probe 8:e9a5",
    );
}

/// A preallocated file whose id had been used in the meantime needed space for its table on a full
/// disk.
#[test]
fn file_made_ready_for_an_old_id_keeps_its_promise() {
    replay(
        "seed 38075602 binary 13312 | synced reuse name-ahead in-flight:3 idle ring:9216 \
         parity:4+1 ; p1 h11 a848 a740 a53 a703 a537 a782 p0 ; @372 full:741b @469 full:9443 \
         ; power@719 sector:b10e probe 8:18e7 mend 3:49b8 | synced ahead reuse name-ahead \
         ring:10240 ; a574 a556 h0 p0 a620 a274 a833 a786 a811 v / v p0 / a579 a908 a434 a716 \
         s2+1+27+181 x6 p2 s86+180+35+188 a17 a643 a722 h3 a843 / a172 a553 a775 a752 ; @258 \
         full:c4df ; power@416 byte:13c protect 4+2 power@41 sector:b738 probe 8:d1ca",
    );
}
