//! The packets as ellipses, in SVG.

use std::fmt::Write;

use crate::matrix::ellipse;
use crate::packet::MassPacket;

/// Edge of the picture, in pixels.
const SIZE: f64 = 640.0;

/// A picture of the packets: the image of the unit ball under each deformation matrix, coloured by speed. The caption is written below.
pub fn svg<const D: usize>(packets: &[MassPacket<D>], caption: &str) -> String {
    let active = || packets.iter().filter(|packet| packet.is_active());
    let reach = active().map(|packet| {
        let (_, major, _) = ellipse(&packet.deformation);
        packet.position[0].abs().max(packet.position[1].abs()) + major
    });
    let scale = 0.48 * SIZE / reach.fold(f64::MIN_POSITIVE, f64::max);
    let speed = |packet: &MassPacket<D>| packet.velocity.iter().map(|v| v * v).sum::<f64>().sqrt();
    let fastest = active().map(speed).fold(f64::MIN_POSITIVE, f64::max);
    let height = SIZE + 30.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{SIZE}\" height=\"{height}\" \
         viewBox=\"0 0 {SIZE} {height}\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for packet in active() {
        let (angle, major, minor) = ellipse(&packet.deformation);
        let share = speed(packet) / fastest;
        let (red, blue) = (40.0 + 190.0 * share, 200.0 - 150.0 * share);
        let (x, y) = (SIZE / 2.0 + scale * packet.position[0], SIZE / 2.0 - scale * packet.position[1]);
        let _ = writeln!(
            text,
            "<ellipse rx=\"{:.2}\" ry=\"{:.2}\" transform=\"translate({x:.2} {y:.2}) rotate({:.2})\" \
             fill=\"rgb({red:.0},90,{blue:.0})\" fill-opacity=\"0.25\" stroke=\"rgb({red:.0},60,{blue:.0})\" \
             stroke-width=\"0.8\"/>",
            scale * major,
            scale * minor,
            -angle.to_degrees()
        );
    }
    let caption = format!("{caption}, width of the picture {:.2}", SIZE / scale);
    let caption = caption.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        text,
        "<text x=\"12\" y=\"{}\" font-family=\"sans-serif\" font-size=\"15\">{caption}</text>\n</svg>",
        SIZE + 20.0
    );
    text
}
